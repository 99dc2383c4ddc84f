"""What ``tokur evaluate`` writes: tables, JSON, LaTeX, plots and labelled records."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.commands.evaluate.rows import many
from tests.helpers import write_lines


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
