"""evaluate, select and heatmap read labels and answers in one way: that of their options, with Inspect as the judge."""

import json
import math
import re

import pytest
import reasoning_gym
from inspect_ai.log import read_eval_log

from tests.commands.evaluate.rows import of_steps
from tests.commands.evaluate.test_evaluate_spans import responses as with_claims
from tests.commands.test_answers_and_verdicts import CODE, scored
from tests.helpers import parsed, write_lines
from tests.records.reading import DATA, read
from tokur_cli.answers import grading

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


@pytest.mark.parametrize("command", ["evaluate", "select", "heatmap"])
def test_one_of_several_scorers_is_to_be_named_whatever_the_command(run_tokur, several, command):
    code, out, err = run_tokur(command, several, *(["--keep", "100%"] if command == "select" else []))
    assert (code, out) == (2, "")
    assert err.startswith(f"tokur {command}: the records have several scores: choose the label with --label-field ")
    assert set(by_inspect()) <= set(err.partition("--label-field ")[2].split())


@pytest.mark.parametrize("field", by_inspect())
def test_the_named_scorer_is_counted_as_by_inspect(run_tokur, several, field):
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


def test_two_seeds_of_a_file_are_two_runs_of_spans_as_of_responses(run_tokur, tmp_path):
    rows = with_claims(40)
    for number, row in enumerate(rows):
        row["id"] = f"q{number // 2}"
        row["tokur"] |= {"run": {"seed": number % 2}, "sample": 0}
    apart = [write_lines(tmp_path / f"{seed}.jsonl", rows[seed::2]) for seed in (0, 1)]
    options = ("--level", "step", "--bootstrap", 0)
    together = write_lines(tmp_path / "both.jsonl", rows)
    code, out, err = run_tokur("evaluate", together, *options)
    assert code == 0
    assert f"{together} was scored under the seeds 0, 1: each is a run of its own" in err
    _, two_files, _ = run_tokur("evaluate", *apart, *options)
    assert out == two_files
    assert parsed(out)[0]["runs"] == 2


@pytest.mark.parametrize("seed", [[0], {}])
def test_a_seed_that_is_none_is_a_bad_record(run_tokur, tmp_path, seed):
    row = scored("The answer is 4.", reference="4")
    row["tokur"]["run"] = {"seed": seed}
    path = write_lines(tmp_path / "in.jsonl", [scored("The answer is 4.", 1, reference="4"), row])
    code, _, err = run_tokur("evaluate", path)
    assert code == 1
    assert re.search(rf'{path}:2: "tokur.run.seed" is a(n object| list), not a number', err)


def test_responses_of_two_models_in_one_file_are_said_unless_they_are_grouped(run_tokur, tmp_path):
    rows = [scored(f"The answer is {4 + number % 2}.", number, eu=number / 10, reference="4") for number in range(8)]
    for number, row in enumerate(rows):
        row["tokur"]["run"] = {"seed": 0, "model": "ab"[number // 4]}
    path = write_lines(tmp_path / "in.jsonl", rows)
    said = (
        f"tokur evaluate: {path} has scores of the models a, b, evaluated together: --group-by tokur.run.model parts "
    )
    assert said in run_tokur("evaluate", path, "--bootstrap", 0)[2]
    assert said not in run_tokur("evaluate", path, "--bootstrap", 0, "--group-by", "tokur.run.model")[2]


@pytest.mark.parametrize(
    ("setting", "values", "said"),
    [
        ("sigma", (0.1, 0.05), "strengths 0.1, 0.05"),
        ("rank", (8, 4), "ranks 8, 4"),
        ("layers", (None, "15:"), "layers all, 15:"),
        ("estimator", ("paper", "kl"), "estimators paper, kl"),
    ],
)
@pytest.mark.parametrize("level", ["response", "step"])
def test_scores_of_two_kinds_in_one_file_are_said(run_tokur, tmp_path, setting, values, said, level):
    """EU of σ = 0.1 is several times that of 0.05: their ranks would mostly tell which of the two a record has."""
    rows = [of_steps(number, [0.1 + number, 0.2, 0.3], reference=str(12 + number % 2)) for number in range(8)]
    for number, row in enumerate(rows):
        row["claims"] = [{"start": 0, "end": 9, "correct": number % 2 == 0}]
        row["tokur"]["run"] = {"rank": 8, "layers": None, "sigma": 0.1, "seed": 0, setting: values[number // 4]}
    path = write_lines(tmp_path / "in.jsonl", rows)
    line = f"{path} has scores of the {said}, evaluated together: --group-by tokur.run.{setting} parts them\n"
    options = ["--bootstrap", 0, "--level", level]
    assert line in run_tokur("evaluate", path, *options)[2]
    assert line not in run_tokur("evaluate", path, *options, "--group-by", f"tokur.run.{setting}")[2]
    for row in rows[:2]:  # nothing was drawn for them
        row["tokur"]["run"] = {"rank": None, "sigma": None, "layers": None, "seed": None}
    for row in rows[2:]:
        row["tokur"]["run"] |= {setting: values[1]}
    path = write_lines(tmp_path / "in.jsonl", rows)
    assert "evaluated together" not in run_tokur("evaluate", path, *options)[2]


NOT_A_LABEL = {"correct": "n/a", "quality": "good"}


def test_fields_that_are_not_the_label_may_hold_anything(run_tokur, tmp_path):
    rows = [of_steps(number, [0.1 + number, 0.2, 0.3], reference="13") for number in range(6)]
    claims = [{"start": 0, "end": 9, "correct": True}, {"start": 9, "end": 20, "correct": False}]
    rows = [{**row, "claims": claims, "judge": {"ok": number % 2 == 0}} for number, row in enumerate(rows)]
    plain = write_lines(tmp_path / "plain.jsonl", rows)
    path = write_lines(tmp_path / "in.jsonl", [{**row, **NOT_A_LABEL} for row in rows])
    for options in (
        ["--level", "step"],
        ["--label-field", "judge.ok"],
    ):
        code, out, err = run_tokur("evaluate", path, "--bootstrap", 0, *options)
        assert (code, out) == (0, run_tokur("evaluate", plain, "--bootstrap", 0, *options)[1]), err
    for command in ("select", "heatmap"):
        options = ["--keep", "100%"] if command == "select" else []
        code, _, err = run_tokur(command, path, "--label-field", "judge.ok", *options)
        assert code == 0, err


def test_select_and_heatmap_run_code_where_they_may(run_tokur, tmp_path):
    rows = [
        scored(f"def f(x):\n    return {body}\n", sample, eu, **CODE)
        for sample, (body, eu) in enumerate((("x * 2", 0.1), ("x * 3", 0.2), ("2 * x", 0.3), ("f(x)", 0.4)))
    ]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, _, err = run_tokur("select", path, "--method", "bon", "--unsafe-code-execution")
    assert code == 0
    assert err.splitlines() == [
        "tokur select: HumanEval tests run without isolation",
        "tokur select: accuracy 100.00%, Pass@1 50.00%, Pass@4 100.00% (1 question)",
    ]
    code, out, err = run_tokur("heatmap", path, "--unsafe-code-execution")
    assert (code, err) == (0, "tokur heatmap: HumanEval tests run without isolation\n")
    assert (out.count("✓ correct"), out.count("✗ incorrect")) == (2, 2)


def gym_rows(task, count=2):
    """A right and a wrong response to each of a task's questions."""
    for number, row in enumerate(json.loads(json.dumps(list(reasoning_gym.create_dataset(task, size=count, seed=3))))):
        for sample, answer in enumerate((row["answer"], "nothing")):
            one = scored(f"<answer>{answer}</answer>", sample, 0.1 + sample, **row, reference=row["answer"])
            yield {**one, "id": f"q{number}"}


def test_an_answer_that_was_not_given_is_not_answered(run_tokur, tmp_path):
    """Of four questions the first is answered, the second is unsure, and to the others no answer is read."""
    unread = "I cannot tell which of them it would be."
    answers = {
        "a": ["The answer is 4."] * 2,
        "b": ["The answer is 4.", "The answer is 5."],
        "c": [unread] * 2,
        "d": [""],
    }
    rows = [
        {**scored(text, sample, reference="4"), "id": name}
        for name, texts in answers.items()
        for sample, text in enumerate(texts)
    ]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("select", path, "--keep", "100%", "--abstain", "0.8")
    assert code == 0
    assert [record["tokur"]["answer"] for record in parsed(out)] == ["4", None, None, None]
    said = err.splitlines()
    assert "tokur select: answered 1 of 4 questions (25.00%), too uncertain of 1, no answer was read to 2" in said
    assert "coverage 25.00%, accuracy of what is answered 100.00%" in said[-1]


def test_code_that_is_chosen_is_an_answer(run_tokur, tmp_path):
    row = scored("def f(x):\n    return x + x\n", **CODE, correct=True)
    row["tokur"]["scores"]["p_correct"] = 0.9
    path = write_lines(tmp_path / "in.jsonl", [row])
    _, out, err = run_tokur("select", path, "--method", "bon", "--by", "p_correct", "--abstain", "0.8", "--records")
    assert parsed(out)[0]["tokur"]["select"]["chosen"] is True
    assert "answered 1 of 1 questions" in err


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
def test_a_rule_of_ones_own_reads_the_answer_in_every_command(run_tokur, tmp_path, pattern, text, answer):
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


def test_it_reads_what_votes_and_what_a_rule_of_a_data_set_judges(run_tokur, tmp_path):
    own = ("--answer", r"#(\d+)")
    votes = [scored(f"#{n} though the answer is 9", sample, reference="5") for sample, n in enumerate((3, 5, 5))]
    _, out, err = run_tokur("select", write_lines(tmp_path / "a.jsonl", votes), "--keep", "100%", *own)
    assert (parsed(out)[0]["tokur"]["answer"], "accuracy 100.00%, majority 100.00%, Pass@1 66.67%" in err) == (
        "5",
        True,
    )
    rows = [{**row, "response": row["response"].replace("<answer>", "#").replace("</answer>", "")} for row in
            gym_rows("leg_counting")]  # fmt: skip
    _, out, _ = run_tokur("evaluate", write_lines(tmp_path / "b.jsonl", rows), "--bootstrap", 0, *own)
    assert parsed(out)[0]["outcomes"] == {"correct": 2, "no_answer": 2}


@pytest.mark.parametrize("command", ["evaluate", "select", "heatmap"])
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "--answer (: this is no regular expression: missing )"),
    ],
)
def test_a_rule_that_can_read_nothing_is_a_usage_error(run_tokur, tmp_path, command, pattern, message):
    code, out, err = run_tokur(command, write_lines(tmp_path / "in.jsonl", []), "--answer", pattern)
    assert (code, out) == (2, "")
    assert message in err


def test_an_expression_that_takes_forever_on_a_response_makes_it_a_bad_record(run_tokur, tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "_PATTERN_SECONDS", 0.3)
    rows = [scored("aaab", 0, reference="aaa"), scored("a" * 60 + "!", 1, reference="aaa")]
    path = write_lines(tmp_path / "in.jsonl", rows)
    for command in ("evaluate", "select", "heatmap"):
        code, _, err = run_tokur(command, path, "--answer", "(?:a|aa)+[bc]$", "--skip-invalid")
        assert code == 3
        assert f"{path}:2: --answer takes more than 0.3 s on this response: simplify it" in err


def test_what_has_no_answer_that_can_be_read_is_counted_and_three_are_shown(run_tokur, tmp_path):
    texts = [
        "I cannot tell which of them it would be.\x1b[m" + "é" * 90,
        "",
        "Let me see\n\twhat \u202e it could be.",
        "I cannot tell which it is.",
        "The answer is 4.",
    ]
    rows = [{**scored(text, reference="4"), "id": f"q\n{number}"} for number, text in enumerate(texts)]
    del rows[2]["id"]
    path = write_lines(tmp_path / "in.jsonl", rows)
    code, out, err = run_tokur("evaluate", path, "--bootstrap", 0)
    assert code == 0
    assert parsed(out)[0]["outcomes"] == {"no_answer": 4, "correct": 1}
    said = err[: err.index("tokur evaluate: no ")] if "tokur evaluate: no " in err else err
    assert said.splitlines() == [
        "tokur evaluate: 4 responses have no answer that could be read, and count as incorrect (--answer REGEX reads "
        "them your way), such as",
        f"  {path}:1 (q↵0, sample 0): …{'é' * 59}",
        f"  {path}:2 (q↵1, sample 0): is empty",
        f"  {path}:3: Let me see what ⟨U+202E⟩ it could be.",
    ]
    _, _, err = run_tokur("evaluate", path, "--bootstrap", 0, "--as", "table")
    assert "4 responses have no answer" in err
    _, _, err = run_tokur("evaluate", path, "--bootstrap", 0, "--answer", "(?s).+")
    assert "1 response has no answer that could be read, and counts as incorrect" in err
    assert "no answer" not in run_tokur("evaluate", write_lines(path, rows[4:]), "--bootstrap", 0)[2]


def test_a_mean_of_several_verdicts_is_inspects(run_tokur, several):
    """A quality between 0 and 1 is no verdict that a vote can be judged by, and its mean is what Inspect shows."""
    scores = [sample.scores["f1"].value for sample in read_eval_log(str(SEVERAL)).samples]
    _, out, _ = run_tokur("evaluate", several, "--label-field", "scores.f1.value", "--scores", "eu", "--bootstrap", 0)
    assert parsed(out)[0]["accuracy"]["value"] == pytest.approx(math.fsum(scores) / len(scores))
    code, _, err = run_tokur("select", several, "--label-field", "scores.f1.value", "--by", "eu")
    assert code == 0
    assert f"{sum(0 < score < 1 for score in scores)} without labels left out" in err
