"""evaluate, select and heatmap find the same answer in a response, and agree on whether it is right."""

import json
import math
import re

import pytest
from inspect_ai.log import read_eval_log

from tests.helpers import parsed, write_lines
from tests.records.reading import DATA, read

GYM = {
    "question": "Who is Zoey?",
    "answer": "Zoey is a sage",
    "reference": "Zoey is a sage",
    "metadata": {"source_dataset": "knights_knaves", "source_index": 0},
}
CODE = {
    "question": "Double x.",
    "prompt": "def f(x):\n",
    "entry_point": "f",
    "test": "def check(f):\n    assert f(2) == 4\n    assert f(3) == 6\n",
}


def scored(response, sample=0, eu=0.1, **fields):
    tokur = {
        "sample": sample,
        "tokens": {"offsets": [[0, len(response)]], "eu": [eu]},
        "scores": {"eu": eu, "eu_mean": eu},
    }
    return {"id": "q", **fields, "response": response, "tokur": tokur}


@pytest.mark.parametrize(
    ("record", "answer", "right"),
    [
        (scored("Well: <answer>Zoey is a sage</answer>", **GYM), "Zoey is a sage", True),
        (scored("Well: <answer>Zoey is 2 fools</answer>", **GYM), "Zoey is 2 fools", False),
        (scored("I would go with option B here.", reference=["B", "(B)"]), "B", True),
        (scored("I would go with option C here.", reference=["B", "(B)"]), "C", False),
        (scored("The answer is 1/2.", reference=["0.5", "one half"]), "1/2", True),
        (scored("So there are 42.", reference=["B", "42"]), "42", True),
        (scored("The answer is Paris.", reference="London", correct=True), "Paris", True),
        (scored("The answer is London.", reference="London", quality=0), "London", False),
        (scored("def f(x):\n    return x + x  # 2", **CODE, correct=True), None, True),
        (scored("def f(x):\n    return x * 3", **CODE, correct=False), None, False),
        (scored("def f(x):\n    return x * 3", **CODE), None, None),
    ],
)
def test_labels_an_answer_and_its_verdict_are_the_same_everywhere(run_tokur, tmp_path, record, answer, right):
    path = write_lines(tmp_path / "in.jsonl", [record])
    graded = tmp_path / "graded.jsonl"
    run_tokur("evaluate", path, "--graded", graded)
    (one,) = parsed(graded.read_text())
    verdict = one.get("correct", None if one.get("quality") is None else one["quality"] == 1)
    assert (one["tokur"]["answer"], verdict) == (answer, right)

    code, out, err = run_tokur("select", path, "--method", "bon", "--records")
    assert code == 0
    assert json.loads(out)["tokur"]["select"]["answer"] == answer
    assert re.findall(r"accuracy \S+", err) == ([] if right is None else [f"accuracy {100 * right:.2f}%"])

    code, out, _ = run_tokur("heatmap", path)
    assert code == 0
    assert ("✓ correct" in out, "✗ incorrect" in out) == (right is True, right is False)


SEVERAL = DATA / "inspect_several.eval"
RIGHT = {"C": 1.0, "I": 0.0, "N": 0.0}


@pytest.fixture
def several(tmp_path):
    """The samples of a log with several scorers, each with the array of one token."""
    rows = []
    for record in read(SEVERAL.name):
        fields = json.loads(record.encode())
        tokens = {"offsets": [[0, len(fields["response"])]], "eu": [0.5]}
        rows.append({**fields, "tokur": {**fields["tokur"], "tokens": tokens, "scores": {"eu": 0.5}}})
    return write_lines(tmp_path / "several.jsonl", rows)


def by_inspect():
    """Of each scorer that says right or wrong what it says of each sample, as Inspect reads its own log."""
    log = read_eval_log(str(SEVERAL))
    return {
        f"scores.{name}.value": [
            RIGHT[value] if isinstance(value := sample.scores[name].value, str) else float(value)
            for sample in log.samples
        ]
        for name in ("includes", "gives_number")
    }


@pytest.mark.parametrize("field", by_inspect())
def test_labels_the_named_scorer_is_counted_as_by_inspect(run_tokur, several, field):
    labels = by_inspect()[field]
    mean = sum(labels) / len(labels)
    _, out, err = run_tokur("evaluate", several, "--label-field", field, "--scores", "eu")
    assert parsed(out)[0]["accuracy"]["value"] == pytest.approx(mean), err
    code, _, err = run_tokur("select", several, "--label-field", field, "--by", "eu")
    assert code == 0
    assert re.search(rf"accuracy {100 * mean:.2f}% \(3 questions\)", err)
    code, out, _ = run_tokur("heatmap", several, "--label-field", field)
    assert code == 0
    assert (out.count("✓ correct"), out.count("✗ incorrect")) == (sum(labels), len(labels) - sum(labels))


OWN = [
    # last match's first group; the whole match; a group that took no part; blank; no match
    (r"=> (\w+)", "=> 3 then => 7, of 42", "7"),
    (r"\b\d\b", "6, 7 of 42", "7"),
    (r"(?i)ANSWER:\s*(.*)$", "The Answer: 7 ", "7"),
    (r"=> (\d)|none", "=> 7, or none", None),
    (r"=>(.*)", "7 =>   ", None),
    (r"=> (\d)", "The answer is 7.", None),
]


@pytest.mark.parametrize(("pattern", "text", "answer"), OWN)
def test_labels_a_rule_of_ones_own_reads_the_answer_in_every_command(run_tokur, tmp_path, pattern, text, answer):
    path = write_lines(tmp_path / "in.jsonl", [scored(text, reference="7")])
    graded = tmp_path / "graded.jsonl"
    code, out, err = run_tokur("evaluate", path, "--answer", pattern, "--graded", graded)
    assert code == 0, err
    (record,) = parsed(graded.read_text())
    assert (record["tokur"]["answer"], record["correct"]) == (answer, answer == "7")
    assert parsed(out)[0]["outcomes"] == {"no_answer" if answer is None else "correct": 1}
    code, out, err = run_tokur("select", path, "--answer", pattern)
    assert (code, parsed(out)[0]["tokur"]["answer"]) == (0, answer)
    assert f"accuracy {100 if answer else 0}.00%" in err
    code, out, _ = run_tokur("heatmap", graded, "--answer", pattern)
    assert (code, "✓ correct" in out, "✗ incorrect" in out) == (0, answer == "7", answer is None)


def test_labels_a_mean_of_several_verdicts_is_inspects(run_tokur, several):
    """A quality between 0 and 1 is no verdict that a vote can be judged by, and its mean is what Inspect shows."""
    scores = [sample.scores["f1"].value for sample in read_eval_log(str(SEVERAL)).samples]
    _, out, _ = run_tokur("evaluate", several, "--label-field", "scores.f1.value", "--scores", "eu", "--bootstrap", 0)
    assert parsed(out)[0]["accuracy"]["value"] == pytest.approx(math.fsum(scores) / len(scores))
    code, _, err = run_tokur("select", several, "--label-field", "scores.f1.value", "--by", "eu")
    assert code == 0
    assert f"{sum(0 < score < 1 for score in scores)} without labels left out" in err
