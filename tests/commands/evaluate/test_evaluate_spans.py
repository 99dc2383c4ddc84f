"""``tokur evaluate --level step``: labelled spans of responses, against scikit-learn and sums by hand."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.helpers import parsed, write_lines

SIGN = {"eu": 1, "logprob": -1}


def response(number, *, rng, steps=5, tokens=4, wrong=3, **fields):
    """A response of steps of single-character tokens, one step wrong, what comes after it not labelled."""
    length = steps * tokens
    text = "".join(rng.choice(list("ab12")) for _ in range(length))
    claims = [
        {"start": at * tokens, "end": (at + 1) * tokens, "correct": None if at > wrong else at != wrong}
        for at in range(steps)
    ]
    eu = rng.exponential(size=length)
    eu[wrong * tokens : (wrong + 1) * tokens] += 0.5
    values = {"eu": eu.tolist(), "logprob": (-rng.exponential(size=length)).tolist()}
    offsets = [[place, place + 1] for place in range(length)]
    tokur = {"schema": 1, "tokens": {"offsets": offsets, **values}}
    return {"id": f"q{number // 2}", "response": text, "claims": claims, **fields, "tokur": tokur}


def responses(count=60, seed=0, **fields):
    rng = np.random.default_rng(seed)
    return [response(number, rng=rng, wrong=int(rng.integers(1, 5)), **fields) for number in range(count)]


@pytest.fixture
def evaluate(run_tokur, tmp_path):
    def run(records, *options):
        path = write_lines(tmp_path / "in.jsonl", records)
        code, out, err = run_tokur("evaluate", "--level", "step", path, *options)
        return code, {row["score"]: row for row in parsed(out)} if out.startswith("{") else out, err

    return run


def of_spans(records, name, how):
    """Each labelled span's label and doubt, straight from the token arrays."""
    for record in records:
        for claim in record["claims"]:
            places = range(claim["start"], claim["end"])
            doubts = sorted((SIGN[name] * record["tokur"]["tokens"][name][place] for place in places), reverse=True)
            if claim["correct"] is not None and doubts:
                found = {"sum": sum(doubts), "mean": np.mean(doubts), "max": doubts[0], "top5": np.mean(doubts[:5])}
                yield claim["correct"], found[how]


def test_evaluate_steps_every_quantity_and_aggregate_agrees_with_scikit_learn(evaluate):
    records = responses()
    code, rows, err = evaluate(records, "--bootstrap", 0)
    assert code == 0, err
    names = [f"{name}_{how}" for name in SIGN for how in ("sum", "mean", "max", "top5")]
    assert list(rows) == [*names, "length", "position", "chance"]
    for name in SIGN:
        for how in ("sum", "mean", "max", "top5"):
            label, doubt = zip(*of_spans(records, name, how), strict=True)
            row = rows[f"{name}_{how}"]
            assert row["records"] == len(label)
            assert row["auroc"]["value"] == pytest.approx(roc_auc_score(label, np.negative(doubt)))
            assert row["auprc"]["value"] == pytest.approx(average_precision_score(label, np.negative(doubt)))
    labelled = [claim["correct"] for record in records for claim in record["claims"] if claim["correct"] is not None]
    assert rows["eu_sum"]["outcomes"] == {"correct": sum(labelled), "incorrect": 60, "null_label": 300 - len(labelled)}
    assert rows["chance"]["auroc"]["value"] == 0.5
    assert rows["chance"]["hit1"]["value"] == pytest.approx(1 / 5)
    assert rows["length"]["within"]["value"] == 0.5  # no score are as long
    assert rows["position"]["within"]["value"] == 1  # no span after the wrong one is known to be right


def test_evaluate_steps_a_token_counts_in_the_span_of_its_first_visible_character(evaluate):
    """ " b" begins in the first span with its space, but is a token of the second."""
    record = {
        "id": "1",
        "response": "a b",
        "claims": [{"start": 0, "end": 2, "correct": True}, {"start": 2, "end": 3, "correct": False}],
        "tokur": {"schema": 1, "tokens": {"offsets": [[0, 1], [1, 3]], "eu": [5.0, 1.0]}},
    }
    _, rows, _ = evaluate([record], "--bootstrap", 0)
    assert rows["eu_sum"]["auroc"]["value"] == 0
    assert json.dumps(rows["eu_sum"]["outcomes"]) == '{"correct": 1, "incorrect": 1}'
