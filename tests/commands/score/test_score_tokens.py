"""``score --tokens``: scores of some tokens of a response, beside those of all."""

import math

import pytest

from tests.commands.score.test_logged import EXACT
from tests.commands.score.test_score import parsed, records, write_lines
from tests.readmes import ROOT

DIGITS = ("--tokens", r"digits=\d")
WITHOUT = ("neg_length",)


@pytest.fixture(scope="module")
def responses():
    given = [{**record, "correct": len(record["response"]) % 3 == 0} for record in records(40)]
    given[1]["response"] = "no number"
    return given


@pytest.fixture
def scored(run_tokur, tiny_folder, responses, tmp_path):
    """What ``score`` makes of the responses, with some options."""

    def run(*options, rows=responses):
        path = write_lines(tmp_path / "in.jsonl", rows)
        code, out, err = run_tokur("score", path, "-m", tiny_folder, "--dtype", "float32", *options)
        assert code == 0, err
        return parsed(out)

    return run


def by_hand(record, name):
    """A sum over the tokens whose text has a digit, from the arrays; None where there are none."""
    tokens = record["tokur"]["tokens"]
    values = [
        value
        for value, (start, end) in zip(tokens[name], tokens["offsets"], strict=True)
        if any(character in "0123456789" for character in record["response"][start:end])
    ]
    return math.fsum(values) if values else None


def test_parts_stand_beside_the_scores_of_whole_responses_which_stay_as_they_are(scored):
    found, plain = scored(*DIGITS), scored()
    for record, whole in zip(found, plain, strict=True):
        scores = record["tokur"]["scores"]
        names = list(whole["tokur"]["scores"])
        assert list(scores) == [*names, *(f"{name}@digits" for name in names if name not in WITHOUT)]
        assert {name: scores[name] for name in names} == whole["tokur"]["scores"]
        assert record["tokur"]["tokens"] == whole["tokur"]["tokens"]
        assert record["tokur"]["run"] == {**whole["tokur"]["run"], "@digits": r"\d"}
        for score, quantity in (("eu", "eu"), ("ll_sum", "logprob"), ("pe_sum", "entropy")):
            expected = by_hand(record, quantity)
            assert scores[f"{score}@digits"] == (None if expected is None else pytest.approx(expected, rel=1e-6))
    assert {found[1]["tokur"]["scores"][f"{name}@digits"] for name in names if name not in WITHOUT} == {None}


def test_evaluate_computes_what_score_stores(scored, run_tokur, tmp_path):
    parts = [*DIGITS, "--tokens", "sums=[+=]", "--scores", "default,eu_fisher,eu_fisher@digits"]
    stored = scored(*parts)
    figures = []
    for rows in (stored, scored("--scores", "default,eu_fisher")):
        path = write_lines(tmp_path / "scored.jsonl", rows)
        code, out, err = run_tokur("evaluate", path, *parts[:4], "--bootstrap", 0, "--scores", "all")
        assert code == 0, err
        figures.append({row["score"]: row for row in parsed(out)})
    assert figures[0].keys() <= figures[1].keys()
    assert {"eu@digits", "eu_fisher@digits", "llm_check_perplexity@sums"} <= figures[0].keys()
    for name, row in figures[0].items():
        for metric in ("records", "missing"):
            assert row[metric] == figures[1][name][metric], name
        for metric in ("auroc", "auprc", "acc", "aurc", "brier"):
            assert row[metric]["value"] == pytest.approx(figures[1][name][metric]["value"]), name


def test_draws_are_made_where_a_part_needs_them(scored):
    found = scored(*DIGITS, "--scores", "ll,ll@digits")[0]["tokur"]
    assert (list(found["scores"]), found["run"]["draws"]) == (["ll", "ll@digits"], 0)
    found = scored(*DIGITS, "--scores", "eu@digits")[0]["tokur"]
    assert (list(found["scores"]), found["run"]["draws"]) == (["eu@digits"], 2)


def test_resuming_goes_on_with_the_same_expressions_only(run_tokur, tiny_folder, responses, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", responses[:8])
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    given = ["score", path, "-m", tiny_folder, "--dtype", "float32"]
    assert run_tokur(*given, *DIGITS, "-o", whole)[0] == 0
    cut.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:3]))
    before = cut.read_bytes()
    for other in (["--tokens", "digits=[0-9]"], [], [*DIGITS, "--tokens", "a=b"]):
        code, _, err = run_tokur(*given, *other, "-o", cut, "--resume")
        assert code != 0
        assert cut.read_bytes() == before, err
    code, _, err = run_tokur(*given, *DIGITS, "-o", cut, "--resume")
    assert code == 0, err
    assert cut.read_bytes() == whole.read_bytes()


def test_parts_are_added_to_a_scored_file_and_replaced_where_their_tokens_are_others(scored):
    first = scored("--scores", "eu")
    second = scored(*DIGITS, "--scores", "eu@digits", rows=first)
    third = scored("--tokens", "a=a", "--scores", "au@a", rows=second)
    for tokur in (record["tokur"] for record in third):
        assert list(tokur["scores"]) == ["eu", "eu@digits", "au@a"]
        assert (tokur["run"]["@digits"], tokur["run"]["@a"]) == (r"\d", "a")
    fourth = scored("--tokens", "a=b", "--scores", "tu@a", rows=third)
    for tokur in (record["tokur"] for record in fourth):
        assert list(tokur["scores"]) == ["eu", "eu@digits", "tu@a"]
        assert (tokur["run"]["@digits"], tokur["run"]["@a"]) == (r"\d", "b")


def test_logged_log_probabilities_have_parts(run_tokur):
    log = ROOT / "tests" / "data" / "formats" / "vllm_logprobs.jsonl"
    code, out, err = run_tokur("score", log, "--from-logprobs", "--tokens", "words=[a-z]")
    assert code == 0, err
    parts = []
    for record in parsed(out):
        scores, tokens = record["tokur"]["scores"], record["tokur"]["tokens"]
        spans = [record["response"][start:end] for start, end in tokens["offsets"]]
        words = [
            value for value, text in zip(tokens["logprob"], spans, strict=True) if any("a" <= c <= "z" for c in text)
        ]
        known = [name for name in EXACT if name not in WITHOUT and scores[name] is not None] if words else []
        assert [name for name in scores if "@" in name and scores[name] is not None] == [
            f"{name}@words" for name in known
        ]
        assert scores["ll_sum@words"] == (pytest.approx(math.fsum(words)) if words else None)
        assert record["tokur"]["run"]["@words"] == "[a-z]"
        assert list(tokens) == ["offsets", "logprob", "deepconf"]
        parts.append(len(words) / len(spans))
    assert min(parts) < max(parts)


@pytest.mark.parametrize(
    "command", [["score", "-m", "nowhere"], ["score", "--from-logprobs"], ["generate", "--score", "-m", "nowhere"]]
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", r"\d"], r"--tokens \d: give the tokens a name"),
        (["--scores", "ll@a"], "--scores ll@a: which tokens are these? Say so with --tokens 'a=REGEX'"),
        (["--scores", "ll", "--tokens", "a=b"], "--tokens a: --scores names no score of these tokens, such as eu@a"),
    ],
)
def test_tokens_without_a_name_or_a_score_are_refused_before_a_model_is_loaded(
    run_tokur, tmp_path, command, options, message
):
    path = write_lines(tmp_path / "in.jsonl", [{"question": "?", "response": "1"}])
    code, out, err = run_tokur(command[0], path, *command[1:], *options)
    assert (code, out) == (2, "")
    assert message in err
