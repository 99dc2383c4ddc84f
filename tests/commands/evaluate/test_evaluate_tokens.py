"""``--tokens`` of ``evaluate`` and ``select``: scores of the tokens that match, against the scores' formulas."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands.evaluate.test_fit import logistic
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
def test_every_score_of_a_part_is_that_of_the_tokens_with_a_match(evaluate, pattern, keep):
    records = list(responses())
    code, rows, err = evaluate(records, "--tokens", f"part={pattern}", "--scores", "all")
    assert code == 0, err
    assert rows.keys() == {"eu", "p_true", *(f"{name}@part" for name in FORMULAS)}
    labels = [record["correct"] for record in records]
    for name, formula in FORMULAS.items():
        doubts = [formula(matching(record, keep)) for record in records]
        assert rows[f"{name}@part"]["auroc"]["value"] == pytest.approx(roc_auc_score(labels, np.negative(doubts)))
    assert "no score" not in err


def test_responses_without_a_match_or_a_value_have_no_score_and_are_counted(evaluate):
    records = list(responses())
    records[3]["response"] = "é" * len(records[3]["response"])
    records[4]["tokur"]["tokens"]["eu"][0] = None
    chosen = ("--tokens", r"digits=\d", "--scores", "eu@digits,tu@digits")
    code, rows, err = evaluate(records, *chosen)
    assert code == 0
    assert "1 record has no score of digits: no token matches \\d" in err
    assert (rows["tu@digits"]["records"], rows["eu@digits"]["records"]) == (39, 38)
    code, _, err = evaluate(records, "--tokens", "z=Z", "--scores", "eu@z")
    assert code == 1
    assert "no record has eu@z" in err
    for record in records:
        del record["tokur"]["tokens"]["eu"]
    code, rows, err = evaluate(records, *chosen)
    assert (code, rows) == (1, {})
    assert "--scores: no record has eu@digits" in err


def stored(records, pattern, names, **settings):
    """The records as ``score --tokens`` would have them, by the formulas."""
    for record in records:
        values = matching(record, lambda text: any(map(str.isdigit, text)))
        scores = {
            f"{name}@digits": -FORMULAS[name](values) if name.startswith("ll") else FORMULAS[name](values)
            for name in names
        }
        record["tokur"]["scores"] |= scores
        record["tokur"]["run"] = {"model": "m", "@digits": pattern, **settings}
    return records


def test_scores_that_a_record_has_are_shown_and_need_no_token_arrays(evaluate):
    records = stored(list(responses()), r"\d", ["eu", "ll_sum"])
    _, computed, _ = evaluate(list(responses()), "--tokens", r"digits=\d")
    for record in records:
        del record["tokur"]["tokens"]
    chosen = ["--scores", "eu@digits,ll_sum@digits"]
    for options in ([], ["--scores", "default"], chosen, [*chosen, "--tokens", r"digits=\d"]):
        code, rows, err = evaluate(records, *options)
        assert code == 0, err
        for name in ("eu@digits", "ll_sum@digits"):
            assert rows[name]["auroc"]["value"] == pytest.approx(computed[name]["auroc"]["value"])
    assert "eu@digits" not in evaluate(records, "--scores", "eu")[1]
    code, _, err = evaluate(records, "--tokens", r"digits=\d", "--scores", "pe@digits")
    assert code == 1
    assert "has no token arrays" in err


def test_another_expression_under_a_name_is_refused(evaluate):
    code, _, err = evaluate(stored(list(responses(8)), r"\d", ["eu"]), "--tokens", "digits=[0-9]")
    assert code == 1
    assert (
        "in.jsonl:1: was scored with --tokens 'digits=\\d', not 'digits=[0-9]': give these tokens another name" in err
    )


def test_a_file_with_several_expressions_under_a_name_is_told_so(evaluate):
    records = stored(list(responses(30)), r"\d", ["eu"]) + stored(list(responses(30)), "[0-9]", ["eu"])
    code, rows, err = evaluate(records)
    assert (code, rows["eu@digits"]["records"]) == (0, 60)
    assert (
        "has scores of the tokens @digits \\d, [0-9], evaluated together: --group-by tokur.run.@digits parts them"
        in err
    )
    _, rows, err = evaluate(records, "--group-by", "tokur.run.@digits")
    assert "evaluated together" not in err


def test_only_some_records_have_a_part_and_another_run_has_none(evaluate, run_tokur, tmp_path):
    records = list(responses())
    paths = []
    for name, part in (("a", stored(records[:20], r"\d", ["eu"]) + records[20:]), ("b", list(responses()))):
        paths.append(write_lines(tmp_path / f"{name}.jsonl", part))
    code, rows, err = evaluate(records, "--scores", "default")
    assert (rows["eu@digits"]["records"], rows["eu@digits"]["missing"]) == (20, 20)
    code, out, err = run_tokur("evaluate", *paths, "--bootstrap", 0)
    assert code == 0, err
    assert {row["score"] for row in parsed(out)} == {"eu", "p_true", "eu@digits"}
    assert run_tokur("evaluate", *reversed(paths), "--bootstrap", 0)[1]


def test_the_whole_and_a_part_are_compared_and_fitted_together(run_tokur, tmp_path):
    records = list(responses(60))
    settings = {"revision": None, "dtype": "float32", "seed": 0, "version": "0.1.0"}
    for record in records:
        record["tokur"]["scores"] = {"ll_sum": sum(record["tokur"]["tokens"]["logprob"])}
        record["tokur"]["run"] = {"model": "m", **settings}
    path, file = write_lines(tmp_path / "in.jsonl", records), tmp_path / "c.json"
    tokens = ["--tokens", r"digits=\d", "--tokens", "letters=[a-z]"]
    code, out, err = run_tokur("evaluate", path, *tokens[:2], "--versus", "ll_sum", "--scores", "ll_sum@digits")
    assert code == 0, err
    assert [row["score"] for row in parsed(out)] == ["ll_sum", "ll_sum@digits"]
    names = ["ll_sum", "ll_sum@digits", "ll_sum@letters"]
    code, _, err = run_tokur("evaluate", path, *tokens, "--fit", file, "--by", ",".join(names), "--bootstrap", 0)
    assert code == 0, err
    fitted = json.loads(file.read_text())
    values, kept = [], []
    for record in records:
        parts = [matching(record, keep)["logprob"] for keep in (lambda _: True, *map(has, (str.isdigit, is_letter)))]
        if all(map(len, parts)):
            values.append([part.sum() for part in parts])
            kept.append(record["correct"])
    values = np.array(values)
    margin = fitted["intercept"] + values @ fitted["weights"]
    assert 1 / (1 + np.exp(-margin)) == pytest.approx(logistic(values, kept, values), abs=1e-4)
    assert (fitted["scores"], fitted["records"]) == (names, len(kept))
    assert fitted["settings"] == {
        "model": "m", "revision": None, "dtype": "float32", "@digits": r"\d", "@letters": "[a-z]"
    }  # fmt: skip
    code, _, err = run_tokur("evaluate", path, *tokens, "--fit", tmp_path / "d.json", "--by", "ll_sum@digits")
    assert code == 2
    assert "--tokens letters: --by names no score of these tokens, such as eu@letters" in err
    stored_without = stored(list(responses(60)), r"\d", ["ll_sum"], **settings)
    for record in stored_without:
        del record["tokur"]["run"]["@digits"]
    path = write_lines(tmp_path / "no.jsonl", stored_without)
    code, _, err = run_tokur("evaluate", path, "--fit", tmp_path / "d.json", "--by", "ll_sum@digits")
    assert code == 1
    assert 'no.jsonl:1: has no "tokur.run.@digits", which says what tokens these scores are of' in err


def has(kind):
    return lambda text: any(map(kind, text))


def is_letter(character):
    return "a" <= character <= "z"


def test_the_samples_that_tell_the_difficulty_need_no_tokens(evaluate, tmp_path):
    records = list(responses(8))
    telling = [{name: record[name] for name in ("id", "response", "correct")} for record in records]
    others = write_lines(tmp_path / "others.jsonl", telling)
    options = ("--difficulty", 1, "--difficulty-from", others, "--scores", "eu@digits")
    code, _, err = evaluate(records, "--tokens", r"digits=\d", *options)
    assert code == 0, err


def test_records_without_token_arrays_are_named(evaluate):
    records = list(responses(4))
    del records[2]["tokur"]["tokens"]
    code, _, err = evaluate(records, "--tokens", r"digits=\d")
    assert code == 1
    assert 'in.jsonl:3: has no token arrays ("tokur.tokens"): score it without --no-tokens' in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", r"\d"], r"--tokens \d: give the tokens a name of letters, digits, _ and -"),
        (["--tokens", "=a"], "--tokens =a: give the tokens a name"),
        (["--tokens", "a b=a"], "--tokens a b=a: give the tokens a name"),
        (["--tokens", "a=", "--scores", "eu@a"], "--tokens a= is empty: give a regular expression"),
        (["--tokens", "a=("], "--tokens a= (: this is no regular expression"),
        (["--tokens", "a=b", "--tokens", "a=c"], "--tokens names a twice: give each expression a name of its own"),
        (["--tokens", "a=b", "--scores", "eu"], "--tokens a: --scores names no score of these tokens, such as eu@a"),
        (["--tokens", "a=b", "--scores", "p_true@a"], "unknown score p_true@a"),
        (["--tokens", "a=b", "--scores", "neg_length@a"], "unknown score neg_length@a"),
        (["--tokens", "a=b", "--versus", "p_true@a"], "--versus p_true@a: there is no such score"),
    ],
)
def test_what_tokens_cannot_be_is_a_usage_error(evaluate, options, message):
    code, _, err = evaluate(list(responses(4)), *options)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("has_scores", [False, True])
@pytest.mark.parametrize("method", ["bon", "wbon"])
def test_select_chooses_by_a_part(run_tokur, tmp_path, has_scores, method):
    """The chosen answer is that of the response whose digits have the highest log-likelihood a token."""
    records = list(responses(24))
    for number, record in enumerate(records):
        record |= {"id": f"q{number // 4}", "response": record["response"] + f" The answer is {number}."}
        record["tokur"]["sample"] = number % 4
    given = [] if has_scores else ["--tokens", r"digits=\d"]
    path = write_lines(tmp_path / "in.jsonl", stored(records, r"\d", ["ll"]) if has_scores else records)
    rule = ["--method", method, *(["--weight", "score", "--keep", "100%"] if method == "wbon" else [])]
    code, out, err = run_tokur("select", path, "--by", "ll@digits", *given, *rule)
    assert code == 0, err
    surprise = [FORMULAS["ll"](matching(record, has(str.isdigit))) for record in records]
    best = [int(np.argmin(surprise[first : first + 4])) + first for first in range(0, 24, 4)]
    assert [line["tokur"]["answer"] for line in parsed(out)] == list(map(str, best))
    settings = parsed(out)[0]["tokur"]["selection"]
    assert (settings["by"], settings.get("@digits")) == ("ll@digits", None if has_scores else r"\d")


def test_select_says_what_is_wrong_with_parts(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", responses(4))
    for options, code, message in (
        (["--tokens", "a=b"], 2, "--tokens a: --by names no score of these tokens, such as eu@a"),
        (["--by", "neg_length@a"], 2, "--by neg_length@a: unknown score"),
        (["--by", "eu@a"], 1, "no response has a finite eu@a"),
        (["--by", "eu@a", "--tokens", "a=Z"], 1, "no response has a finite eu@a"),
    ):
        found, _, err = run_tokur("select", path, *options)
        assert (found, message in err) == (code, True), err
    _, _, err = run_tokur("select", path, "--by", "eu@a", "--tokens", "a=x")
    assert "eu@a adds up over tokens and favours short responses; the paper selects by eu_mean@a" in err


def test_a_heat_map_is_sorted_by_a_part_and_shows_it(run_tokur, tmp_path):
    records = stored(list(responses(6)), r"\d", ["eu"])
    path = write_lines(tmp_path / "in.jsonl", records)
    code, out, err = run_tokur("heatmap", path, "--by", "eu@digits", "--limit", 1)
    assert code == 0, err
    worst = max(records, key=lambda record: record["tokur"]["scores"]["eu@digits"])
    assert worst["id"] in out
    assert f"eu@digits {worst['tokur']['scores']['eu@digits']:.4g}" in " ".join(out.split())
