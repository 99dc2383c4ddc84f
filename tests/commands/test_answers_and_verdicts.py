"""evaluate, select and heatmap find the same answer in a response, and agree on whether it is right."""

import json
import re

import pytest

from tests.helpers import parsed, write_lines

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
def test_an_answer_and_its_verdict_are_the_same_everywhere(run_tokur, tmp_path, record, answer, right):
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


@pytest.mark.parametrize(
    "label",
    [{"correct": 1}, {"correct": 0}, {"correct": "yes"}, {"correct": "true"}, {"correct": {}}, {"quality": 2},
     {"quality": "good"}, {"correct": 1, "quality": 1}],
)  # fmt: skip
def test_what_is_no_label_is_the_same_error_everywhere(run_tokur, tmp_path, label):
    records = [scored("The answer is 4.", reference="4"), scored("The answer is 5.", 1, reference="4", **label)]
    path = write_lines(tmp_path / "in.jsonl", records)
    said = set()
    for command in ("evaluate", "select", "heatmap"):
        code, out, err = run_tokur(command, path)
        assert (code, out) == (1, "")
        said.add(err.removeprefix(f"tokur {command}: "))
        code, _, err = run_tokur(command, path, "--skip-invalid")
        assert code == 3
        assert "skipped 1 invalid record" in err
    (message,) = said
    field = next(iter(label))
    assert message.startswith(f'{path}:2: "{field}" must be true')


def test_a_label_that_is_null_is_none_whatever_stands_beside_it(run_tokur, tmp_path):
    path = write_lines(tmp_path / "in.jsonl", [scored("The answer is 4.", correct=None, quality=1)])
    _, out, _ = run_tokur("heatmap", path)
    assert "right" not in out
    _, _, err = run_tokur("select", path)
    assert "accuracy" not in err


def test_the_best_of_several_programs_may_be_any_and_programs_do_not_vote(run_tokur, tmp_path):
    """The surest one has no number in it that could be taken for an answer."""
    bodies, right = ["x + x", "x * 3", "x * 3"], [True, False, False]
    records = [
        scored(f"def f(x):\n    return {body}\n", sample, sample + 0.1, **CODE, correct=correct)
        for sample, (body, correct) in enumerate(zip(bodies, right, strict=True))
    ]
    path = write_lines(tmp_path / "in.jsonl", records)
    for keep in ("10%", "100%"):
        code, out, err = run_tokur("select", path, "--method", "bon", "--keep", keep)
        assert (code, json.loads(out)["response"]) == (0, records[0]["response"])
        assert err == "tokur select: accuracy 100.00%, Pass@1 33.33%, Pass@3 100.00% (1 question)\n"
    for method in ("maj", "wbon"):
        code, out, err = run_tokur("select", path, "--method", method)
        assert (code, out) == (1, "")
        said = f"is code, and {method} counts equal answers, of which code has none: give --method bon"
        assert err == f"tokur select: {path}:1: {said}\n"


def test_without_permission_to_use_its_rule_a_row_is_selected_but_not_judged(run_tokur, tmp_path):
    row = {**GYM, "metadata": {"source_dataset": "n_queens", "source_index": 0}}
    path = write_lines(tmp_path / "in.jsonl", [scored("<answer>Q _</answer>", **row)])
    code, out, err = run_tokur("select", path)
    assert (code, json.loads(out)["tokur"]["answer"]) == (0, "Q _")
    rule = "of a task whose rule cannot be used, or only with --unsafe-code-execution"
    assert err == f"tokur select: not judged right or wrong: 1 response {rule}\n"
    code, out, _ = run_tokur("heatmap", path)
    assert code == 0
    assert "✗ incorrect" not in out
