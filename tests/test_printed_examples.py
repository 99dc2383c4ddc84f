"""What the README prints is what its commands print; all of them say ``--dtype float32``, which reproduces."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.commands.score.test_score import parsed, write_lines
from tests.test_documentation import README, ROOT

pytestmark = [pytest.mark.real_model, pytest.mark.usefixtures("all_threads")]
N16 = "samples/responses_n16.jsonl"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
INTERVALS = re.compile(r"\| .*`.*( \| [\d.]+ \[[\d.]+, [\d.]+\]){3} \|")  # a row of three figures


def block_with(text):
    """The block of the README that holds a text."""
    return next(block for _, block in BLOCKS if text in block)


def block_after(text):
    """The block that follows the one that holds a text."""
    return BLOCKS[[text in block for _, block in BLOCKS].index(True) + 1][1]


def arguments(command, start):
    """The words of the first command of a block that begins with ``start``, up to a pipe or a redirection."""
    line = next(line for line in command.splitlines() if line.strip().startswith(start))
    return shlex.split(re.split(r" [|>] ", line)[0])[1:]


@pytest.fixture(scope="module")
def scored_samples(tmp_path_factory):
    """All sample responses, scored as the README says before the table of scores."""
    from tests.commands.test_process import finish

    words = arguments(block_with("tokur evaluate scored.jsonl --scores"), "tokur score")
    assert "float32" in words
    code, out, err = finish([str(ROOT / word) if word.startswith("samples/") else word for word in words])
    assert code == 0, err
    path = tmp_path_factory.mktemp("scored") / "scored.jsonl"
    Path(path).write_text(out, encoding="utf-8")
    return path


def test_the_shortened_record_is_the_first_one(run_tokur, tmp_path):
    first = (ROOT / "samples" / "responses.jsonl").read_bytes().split(b"\n")[0]
    assert "--dtype float32" in block_with("python3 -m venv")
    code, out, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", [first]), "--dtype", "float32")
    assert code == 0
    record = parsed(out)[0]
    shown = block_after("python3 -m venv")
    tokur = record["tokur"]
    numbers = re.findall(r'"(\w+)": (-?\d+\.\d+)[,}]', shown[shown.index('"scores"') : shown.index('"run"')])
    assert len(numbers) == 6
    for name, number in numbers:
        digits = len(number.partition(".")[2])
        assert f"{tokur['scores'][name]:.{digits}f}" == number, name
    for value in (record["id"], record["question"], record["reference"], tokur["run"]["dtype"], tokur["run"]["model"]):
        assert json.dumps(value) in shown
    assert record["response"].startswith(json.loads(re.search(r'"response": (".*?) …', shown).group(1) + '"'))
    assert f'"token_ids": [{", ".join(map(str, tokur["token_ids"][:2]))}, …]' in shown
    assert f'"offsets": [{", ".join(map(str, tokur["tokens"]["offsets"][:2]))}, …]' in shown


def test_the_heat_map_is_drawn_as_shown(run_tokur, tmp_path):
    command = block_with("tokur heatmap --sample 8")
    assert command == f"grep word-007 {N16} | tokur score --dtype float32 | tokur heatmap --sample 8\n"
    rows = [line + b"\n" for line in (ROOT / N16).read_bytes().split(b"\n") if b"word-007" in line]
    _, scored, _ = run_tokur("score", write_lines(tmp_path / "in.jsonl", rows), "--dtype", "float32")
    (tmp_path / "scored.jsonl").write_text(scored, encoding="utf-8")
    code, out, _ = run_tokur("heatmap", "--sample", "8", tmp_path / "scored.jsonl")
    assert code == 0
    lines = [line.rstrip() for line in out.splitlines()]
    shown = [line for line in block_after("tokur heatmap --sample 8").splitlines() if line != "…"]
    assert [line for line in shown if line not in lines] == []


@pytest.mark.slow
def test_the_scores_have_the_figures_shown(run_tokur, scored_samples):
    words = arguments(block_with("tokur evaluate scored.jsonl --scores"), "tokur evaluate")
    code, out, _ = run_tokur(*[scored_samples if word == "scored.jsonl" else word for word in words])
    assert code == 0
    found = {row["score"]: row for row in parsed(out)}
    shown = block_after("tokur evaluate scored.jsonl --scores")
    first, _, second = shown.partition("Score − ")
    rows = {line.split()[0]: line for line in first.splitlines() if "[" in line}
    assert rows.keys() == found.keys()
    for name, line in rows.items():
        spelled = [spelling(found[name][measure]) for measure in ("auroc", "auprc", "acc")]
        assert printed(line) == spelled, name
    rows = {line.split()[0]: line for line in second.splitlines() if "[" in line}
    assert rows.keys() == found.keys() - {"ll_sum"}
    for name, line in rows.items():
        spelled = [spelling(found[name]["difference"][measure]) for measure in ("auroc", "acc")]
        assert printed(line) == spelled, name


def printed(line):
    return [" ".join(pair) for pair in re.findall(r"([-\d.]+) +(\[.*?\])", line.replace("+", ""))]


def spelling(measure, digits=2):
    return f"{100 * measure['value']:.{digits}f} [{100 * measure['low']:.1f}, {100 * measure['high']:.1f}]"


@pytest.mark.slow
def test_the_table_beside_the_baselines_agrees(run_tokur, scored_samples):
    """Of its rows those that need nothing but the scoring's own passes."""
    code, out, _ = run_tokur("evaluate", scored_samples)
    assert code == 0
    found = {row["score"]: row for row in parsed(out)}
    compared = set()
    for first, *cells in (line.strip("| ").split(" | ") for line in README.splitlines() if INTERVALS.fullmatch(line)):
        for name in re.findall(r"`(\w+)`", first) if "--" not in first else ():
            if name in found:
                spelled = [spelling(found[name][measure], digits=1) for measure in ("auroc", "auprc", "acc")]
                assert cells == spelled, name
                compared.add(name)
    assert {"eu", "tu", "ll_sum", "pe_sum", "neg_length", "ll"} <= compared
