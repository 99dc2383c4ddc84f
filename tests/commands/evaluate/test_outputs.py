"""What ``tokur evaluate`` writes: tables, JSON, LaTeX, plots and labelled records."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.commands.evaluate.rows import answered, copied, hand_worked, many, scored
from tests.helpers import parsed, write_lines


def test_the_whole_is_written_the_same_to_a_pipe_as_json_and_to_a_file(evaluate, run_tokur, tmp_path):
    _, rows, _ = evaluate(many())
    _, as_json, _ = evaluate(many(), options=["--as", "jsonl"])
    _, out, _ = evaluate(many(), options=["-o", tmp_path / "out.jsonl"])
    assert rows == as_json == parsed((tmp_path / "out.jsonl").read_text())
    assert out == ""


def test_latex_holds_the_numbers_and_marks_the_best_and_the_second(evaluate):
    records = list(many(names=("eu_mean", "ll", "pe")))
    _, rows, _ = evaluate(records)
    _, text, _ = evaluate(records, options=["--as", "latex"])
    first = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line.removesuffix(r" \\").split(" & ") for line in first.strip().split("\n")]
    assert [line[0] for line in lines] == ["no score", r"eu\_mean", "ll", "pe"]
    by_value = sorted(rows, key=lambda row: -row["auroc"]["value"])
    for rank, command in enumerate((r"\\textbf{", r"\\underline{", "")):
        cell = next(line[1] for line in lines if line[0].replace("\\", "") == by_value[rank]["score"])
        value, low, high = (f"{100 * by_value[rank]['auroc'][part]:.{places}f}" for part, places in
                            (("value", 2), ("low", 1), ("high", 1)))  # fmt: skip
        assert re.fullmatch(rf"{command}{value}}}?{{\\scriptsize \$\[{low}, {high}\]\$}}", cell)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2


def test_graded_records_carry_label_and_answer_and_evaluate_alike(evaluate, run_tokur, tmp_path):
    records = [answered(0, 7), answered(1, 8), answered(2, 7, correct=False), answered(3, 7, reference=None)]
    path = tmp_path / "graded.jsonl"
    code, (row,), _ = evaluate(records, options=["--graded", path])
    assert code == 0
    graded = parsed(path.read_text())
    assert [record["correct"] for record in graded] == [True, False, False, None]
    assert [record["tokur"]["answer"] for record in graded] == ["7", "8", "7", "7"]
    for record, given in zip(graded, records, strict=True):
        assert {**given, "correct": record["correct"]} == {**record, "tokur": given["tokur"]}
        assert record["tokur"]["scores"] == given["tokur"]["scores"]
    _, out, _ = run_tokur("evaluate", path)
    again = parsed(out)[0]
    assert {**again, "outcomes": None} == {**row, "outcomes": None}


def test_graded_records_and_results_are_not_mixed(evaluate, tmp_path):
    code, _, err = evaluate(hand_worked(), options=["--graded", "-"])
    assert code == 2
    assert "would take two outputs" in err
    code, records, _ = evaluate(hand_worked(response="7"), options=["--graded", "-", "-o", tmp_path / "results.jsonl"])
    assert [record["tokur"]["answer"] for record in records] == ["7"] * 4
    assert parsed((tmp_path / "results.jsonl").read_text())[0]["auroc"]["value"] == 0.75


def test_plots_are_written_as_png_and_svg(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    records = [
        {**record, "level": number % 3, "id": f"q{number // 4}", "response": "The answer is 7."}
        for number, record in enumerate(many(120, names=("tu", "au", "eu", "ll", "neg_length")))
    ]
    folder = tmp_path / "plots"
    options = ["--plot", folder, "--group-by", "level", "--scaling", "2,4", "--bootstrap", 0]
    code, _, err = evaluate(records, options=options)
    assert (code, err) == (0, "")
    names = ["roc", "risk-coverage", "distributions", "eu-au", "eu-au-balanced", "groups"]
    names += ["scaling-maj", "scaling-wbon"]
    assert {path.name for path in folder.iterdir()} == {f"{name}.{end}" for name in names for end in ("png", "svg")}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
    assert "AUROC" in (folder / "roc.svg").read_text()


def test_a_plane_is_drawn_with_all_responses_and_with_equally_many_right_and_wrong(evaluate, tmp_path):
    """The paper keeps one class and draws as many of the other at random."""
    pytest.importorskip("matplotlib")
    records = [scored(number, number % 7, correct=number % 5 == 0) for number in range(100)]
    for record in records:
        record["tokur"]["scores"] |= {"eu_mean": 0.1, "au_mean": 0.5}
    assert evaluate(records, options=["--plot", tmp_path / "plots", "--bootstrap", 0])[0] == 0
    for name, shown in (
        ("eu-au", ["incorrect (80)", "correct (20)"]),
        ("eu-au-balanced", ["incorrect (20)", "correct (20)"]),
    ):
        assert re.findall(r"(?:in)?correct \(\d+\)", (tmp_path / "plots" / f"{name}.svg").read_text()) == shown


def test_plots_of_one_class_and_of_qualities_are_drawn_too(evaluate, tmp_path):
    pytest.importorskip("matplotlib")
    one_class = [scored(number, number, correct=True) for number in range(12)]
    assert evaluate(one_class, options=["--plot", tmp_path / "one"])[0] == 0
    qualities = [scored(number, number, quality=number / 20) for number in range(20)]
    assert evaluate(qualities, options=["--plot", tmp_path / "graded"])[0] == 0
    assert not (tmp_path / "graded" / "roc.png").exists()


@pytest.mark.slow
def test_a_terminal_gets_tables_that_fit_it(tmp_path):
    path = write_lines(tmp_path / "in.jsonl", many(names=("eu", "self_certainty_sum", "ll")))
    for columns in (80, 120):
        text = on_terminal(["evaluate", path, "--versus", "ll", "--bootstrap", 50], columns)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        lines = [line.rstrip("\r") for line in plain.split("\n") if "tokur evaluate" not in line]
        assert max(map(len, lines)) <= columns
        assert "200 records, 200 with a label; accuracy" in plain
        assert "self_certainty_sum" in plain
        assert "Score − ll, paired (percentage points, 95 % CI)" in " ".join(plain.split())
        assert "\x1b[1m" in text
        assert "\x1b[4m" in text


def test_a_difference_is_shown_with_its_sign_and_its_interval(evaluate, tmp_path):
    records = list(copied(many(60), 4))
    options = ["--versus", "ll", "--scores", "eu,ll"]
    _, (eu, _), _ = evaluate(records, options=options)
    text = on_terminal(["evaluate", write_lines(tmp_path / "in.jsonl", records), *options], 120)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    found = eu["difference"]["auroc"]
    figures = [f"{100 * found[name]:+.{decimals}f}" for name, decimals in (("value", 2), ("low", 1), ("high", 1))]
    row = next(line for line in plain.split("Score − ll")[1].splitlines() if line.startswith("eu "))
    assert "{} [{}, {}]".format(*figures) in row
    assert "240 records, 240 with a label; 60 questions; accuracy" in plain


def on_terminal(arguments, columns):
    """What the command writes to a terminal of so many columns."""
    main, other = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tokur_cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=other, stderr=subprocess.DEVNULL, env=environment)
    os.close(other)
    parts = []
    try:
        while part := os.read(main, 65536):
            parts.append(part)
    except OSError:  # how Linux says that the terminal was hung up
        pass
    os.close(main)
    assert process.wait(timeout=60) == 0
    return b"".join(parts).decode()
