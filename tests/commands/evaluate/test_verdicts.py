"""Which scores ``tokur evaluate`` shows by default, and what it says of each in words."""

import numpy as np
import pytest

from tests.commands.evaluate.rows import copied, many
from tokur_cli.scores.catalogue import CATALOGUE

BY_DEFAULT = ["tu", "au", "eu", "ll_sum", "pe_sum", "self_certainty", "deepconf", "neg_length", "p_true", "p_correct"]
LEFT_OUT = (
    "tokur evaluate: not shown without --scores all: self_certainty_sum, deepconf_sum, which reward length; tu_mean, "
    "au_mean, eu_mean, ll, pe, deepconf_group, deepconf_bottom10, deepconf_tail, llm_check_perplexity, "
    "llm_check_window_entropy, made of the same numbers as a score that is shown\n"
)


def scored_fully(count=24, *, without=()):
    """Records with every score that scoring gives by itself, and two that are asked for."""
    rng = np.random.default_rng(5)
    names = [name for name, score in CATALOGUE.items() if score.default or name in ("p_true", "p_correct")]
    for number in range(count):
        scores = {name: float(rng.random()) for name in names if name not in without}
        scores |= {"neg_length": -float(rng.integers(5, 50))}
        yield {"id": f"q{number}", "correct": bool(rng.random() < 0.5), "tokur": {"schema": 1, "scores": scores}}


def names_of(rows):
    return [row["score"] for row in rows]


def test_of_each_quantity_one_score_is_shown_and_a_line_names_the_others(evaluate):
    records = list(scored_fully())
    code, rows, err = evaluate(records, options=["--bootstrap", 0])
    assert code == 0
    assert names_of(rows) == BY_DEFAULT
    assert err.count("not shown") == 1
    assert LEFT_OUT in err


def test_all_shows_all_and_what_is_named_is_shown(evaluate):
    records = list(scored_fully())
    _, rows, err = evaluate(records, options=["--bootstrap", 0, "--scores", "all"])
    assert names_of(rows) == [name for name in CATALOGUE if name in records[0]["tokur"]["scores"]]
    assert "not shown" not in err
    _, rows, err = evaluate(records, options=["--bootstrap", 0, "--scores", "deepconf_sum, ll ,eu_mean"])
    assert names_of(rows) == ["eu_mean", "ll", "deepconf_sum"]
    assert "not shown" not in err
    _, rows, err = evaluate(records, options=["--bootstrap", 0, "--versus", "eu_mean"])
    assert names_of(rows) == sorted([*BY_DEFAULT, "eu_mean"], key=list(CATALOGUE).index)
    assert "au_mean, ll, pe" in err


def told_apart(count=60):
    """Records whose ``eu`` is far better than ``ll_sum``, which is like the length; ``tu`` is far worse."""
    rng = np.random.default_rng(6)
    for record in many(count, names=("eu",)):
        sign = 1 if record["correct"] else -1
        likelihood = rng.normal(sign * 0.5)
        record["tokur"]["scores"] = {
            "tu": sign + rng.normal(),
            "eu": rng.normal(-3 * sign),
            "ll_sum": likelihood,
            "neg_length": -round(100 - 10 * likelihood + 4 * rng.normal()),
        }
        yield record


def test_each_score_is_judged_against_the_likelihood_and_the_length(evaluate):
    _, rows, _ = evaluate(told_apart())
    verdicts = {row["score"]: {name: of["verdict"] for name, of in row["verdicts"].items()} for row in rows}
    assert verdicts == {
        "tu": {"ll_sum": "worse than", "neg_length": "worse than"},
        "eu": {"ll_sum": "better than", "neg_length": "better than"},
        "ll_sum": {"neg_length": "no clear difference from"},
        "neg_length": {"ll_sum": "no clear difference from"},
    }
    for baseline in ("ll_sum", "neg_length"):  # they are those of the comparison that is made when it is asked for
        _, compared, _ = evaluate(told_apart(), options=["--versus", baseline])
        for row, other in zip(rows, compared, strict=True):
            if other["score"] != baseline:
                difference = other["difference"]["auroc"]
                assert row["verdicts"][baseline]["difference"] == {"auroc": difference}
                held = (difference["low"] > 0) - (difference["high"] < 0)
                words = {1: "better than", -1: "worse than", 0: "no clear difference from"}[held]
                assert other["verdicts"][baseline]["verdict"] == words


@pytest.mark.parametrize("few", [True, False])
def test_nothing_is_said_in_words_where_few_questions_have_a_right_response_or_a_wrong_one(evaluate, few):
    records = list(scored_fully(40))
    for number, record in enumerate(records):
        record["correct"] = (number < 4) == few
    lacking = "tokur evaluate: no verdicts: fewer than 5 questions have a correct response, or an incorrect one\n"
    _, rows, err = evaluate(records)
    assert not any("verdicts" in row for row in rows)
    assert lacking in err
    samples = [{**record, "tokur": {**record["tokur"], "sample": n}} for record in records for n in (0, 1)]
    assert lacking in evaluate(samples)[2]  # two samples to a question are one question
    records[4]["correct"] = few
    _, rows, err = evaluate(records)
    assert all(row["verdicts"] for row in rows)
    assert "no verdicts" not in err


def test_another_baseline_takes_the_place_of_the_likelihood_and_the_length_stays(evaluate):
    records = list(copied(told_apart(40), 2))
    _, rows, _ = evaluate(records, options=["--versus", "tu", "--scores", "eu"])
    assert names_of(rows) == ["tu", "eu"]
    assert {name: of["verdict"] for name, of in rows[1]["verdicts"].items()} == {
        "tu": "better than",
        "neg_length": "better than",
    }
    _, rows, _ = evaluate(records, options=["--scores", "eu"])
    assert names_of(rows) == ["eu"]  # what it is judged against is not shown where it is not asked for
    assert list(rows[0]["verdicts"]) == ["ll_sum", "neg_length"]


def test_the_table_says_it_in_a_sentence(evaluate, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, text, _ = evaluate(told_apart(), options=["--as", "table"])
    table = text.split("Verdicts by the paired 95 % intervals of ΔAUROC\n")[1].splitlines()
    assert table[0].split("  ")[0] == "score"
    assert " ".join(table[2].split()) == "eu better than ll_sum better than neg_length"
    assert " ".join(table[3].split()) == "ll_sum – no clear difference from neg_length"
    assert "about 1 in 20 of these verdicts is a false alarm" in text


@pytest.mark.parametrize("options", [["--bootstrap", 0], ["--level", "step"]])
def test_without_intervals_and_of_spans_nothing_is_said(evaluate, options):
    offsets, eu = [[0, 1], [1, 2]], [0.1, 0.2]
    records = [
        {
            **record,
            "response": "ab",
            "claims": [{"start": 0, "end": 1, "correct": True}, {"start": 1, "end": 2, "correct": number % 2 == 0}],
            "tokur": {**record["tokur"], "tokens": {"offsets": offsets, "eu": eu}},
        }
        for number, record in enumerate(told_apart(20))
    ]
    code, rows, _ = evaluate(records, options=options)
    assert code == 0
    assert not any("verdicts" in row for row in rows)
