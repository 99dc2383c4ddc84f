"""``tokur evaluate --tokens`` of whole responses, against the scores' formulas over the tokens that match."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.score.test_score import parsed, write_lines

FORMULAS = {
    "tu": lambda of: of["tu"].sum(),
    "au": lambda of: of["au"].sum(),
    "eu": lambda of: of["eu"].sum(),
    "tu_mean": lambda of: of["tu"].mean(),
    "au_mean": lambda of: of["au"].mean(),
    "eu_mean": lambda of: of["eu"].mean(),
    "ll": lambda of: -of["logprob"].mean(),
    "ll_sum": lambda of: -of["logprob"].sum(),
    "pe": lambda of: of["entropy"].mean(),
    "pe_sum": lambda of: of["entropy"].sum(),
    "neg_length": lambda of: len(of["logprob"]),
    "llm_check_perplexity": lambda of: np.exp(-of["logprob"].mean()),
    "llm_check_window_entropy": lambda of: of["entropy"].max(),
}
"""What each score makes of the values of tokens, turned so that more is less sure."""


def responses(count=40):
    """Scored responses of tokens of one or two characters, with and without digits."""
    rng = np.random.default_rng(7)
    for number in range(count):
        pieces = ["x1", *rng.choice(["a", "b ", "12", "3", " 4", "éé"], size=int(rng.integers(3, 12)))]
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        offsets = [[end - len(piece), end] for piece, end in zip(pieces, ends, strict=True)]
        values = {name: rng.exponential(size=len(pieces)).tolist() for name in ("tu", "au", "eu", "entropy")}
        values["logprob"] = (-rng.exponential(size=len(pieces))).tolist()
        scores = {"eu": 0.5, "p_true": 0.5}
        tokur = {"schema": 1, "tokens": {"offsets": offsets, **values}, "scores": scores}
        label = bool(rng.integers(2))
        yield {"id": f"q{number}", "response": "".join(pieces), "correct": label, "tokur": tokur}


@pytest.fixture
def evaluate(run_tokur, tmp_path):
    def run(records, *options):
        code, out, err = run_tokur("evaluate", write_lines(tmp_path / "in.jsonl", records), "--bootstrap", 0, *options)
        return code, {row["score"]: row for row in parsed(out)}, err

    return run


def matching(record, keep):
    """The values of the tokens whose text is kept, by quantity."""
    tokens = record["tokur"]["tokens"]
    kept = [keep(record["response"][start:end]) for start, end in tokens["offsets"]]
    return {name: np.array(values)[kept] for name, values in tokens.items() if name != "offsets"}


@pytest.mark.parametrize(
    ("pattern", "keep"), [(r"\d", lambda text: any(map(str.isdigit, text))), ("^", lambda text: True)]
)
def test_every_score_is_that_of_the_tokens_with_a_match(evaluate, pattern, keep):
    records = list(responses())
    code, rows, err = evaluate(records, "--tokens", pattern, "--scores", "all")
    assert code == 0, err
    assert rows.keys() == FORMULAS.keys()
    labels = [record["correct"] for record in records]
    for name, formula in FORMULAS.items():
        doubts = [formula(matching(record, keep)) for record in records]
        assert rows[name]["auroc"]["value"] == pytest.approx(roc_auc_score(labels, np.negative(doubts)))
    assert "no score" not in err


def test_responses_without_a_match_or_a_value_have_no_score_and_are_counted(evaluate):
    records = list(responses())
    records[3]["response"] = "é" * len(records[3]["response"])
    records[4]["tokur"]["tokens"]["eu"][0] = None
    code, rows, err = evaluate(records, "--tokens", r"\d", "--scores", "eu,tu")
    assert code == 0
    assert "1 records have no score: no token matches \\d" in err
    assert (rows["tu"]["records"], rows["eu"]["records"]) == (39, 38)
    code, _, err = evaluate(records, "--tokens", "Z")
    assert code == 1
    assert "--tokens Z: no record has a score of tokens that match" in err
    for record in records:
        del record["tokur"]["tokens"]["eu"]
    code, rows, err = evaluate(records, "--tokens", r"\d", "--scores", "eu,tu")
    assert (code, rows) == (1, {})
    assert "--scores: no record has eu" in err


def test_the_samples_that_tell_the_difficulty_need_no_tokens(evaluate, tmp_path):
    records = list(responses(8))
    telling = [{name: record[name] for name in ("id", "response", "correct")} for record in records]
    others = write_lines(tmp_path / "others.jsonl", telling)
    options = ("--difficulty", 1, "--difficulty-from", others, "--scores", "eu")
    code, _, err = evaluate(records, "--tokens", r"\d", *options)
    assert code == 0, err


def test_records_without_token_arrays_are_named(evaluate):
    records = list(responses(4))
    del records[2]["tokur"]["tokens"]
    code, _, err = evaluate(records, "--tokens", r"\d")
    assert code == 1
    assert 'in.jsonl:3: has no token arrays ("tokur.tokens"): score it without --no-tokens' in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scores", "eu,p_true"], "--tokens: values of tokens do not give p_true: leave it out"),
        (["--versus", "p_true"], "--tokens: values of tokens do not give p_true: leave it out"),
        (["--worst", 3], "leave --tokens and --bootstrap out"),
        (["--fit", "c.json"], "--tokens does not go with --fit"),
    ],
)
def test_what_does_not_go_with_tokens_is_a_usage_error(evaluate, options, message):
    code, _, err = evaluate(list(responses(4)), "--tokens", "a", *options)
    assert code == 2
    assert message in err
