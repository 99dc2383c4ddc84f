"""The scripts that make the paper's tables and figures."""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score

from tests.helpers import parsed, write_lines
from tests.readmes import ROOT
from tokur_cli.scores.catalogue import CATALOGUE

PAPER = ROOT / "samples" / "paper"
QUICK = {"LIMIT": "2", "TOKENS": "12", "TEMPLATE": "chat", "DTYPE": "float32"}
QUICK |= {"SCORES": "default", "FORM": "jsonl", "SEEDS": "0 1"}


def start(folder, script, programs, **settings):
    """Run a script in a folder that has the samples, with the ``tokur`` of another folder."""
    if not (folder / "samples").exists():
        (folder / "samples").symlink_to(ROOT / "samples")
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **settings}
    command = ["sh", f"samples/paper/{script}"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_paper_scripts_are_portable():
    subprocess.run(
        ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", *(path.name for path in PAPER.glob("*.sh"))],
        cwd=PAPER,
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        check=True,
    )


@pytest.mark.slow
def test_detect_evaluates_every_seed_and_resumes(roomy_folder, programs, tmp_path):
    rows = [{"id": f"q{n}", "question": f"{n}+{n}?", "reference": str(2 * n), "correct": n == 0} for n in range(3)]
    settings = QUICK | {"MODEL": str(roomy_folder), "INPUT": str(write_lines(tmp_path / "asked.jsonl", rows))}
    done = start(tmp_path, "detect.sh", programs, **settings)
    assert done.returncode == 0, done.stderr
    found = {row["score"]: row for row in map(json.loads, re.findall(r"^{.*", done.stdout, re.M))}
    runs = [parsed((tmp_path / "detect" / f"responses-{seed}.jsonl").read_text()) for seed in (0, 1)]
    for seed, records in enumerate(runs):
        assert [record["id"] for record in records] == ["q0", "q1"]
        assert records[0]["tokur"]["run"]["seed"] == seed
    for name, row in found.items():
        sign = 1 if CATALOGUE[name].orientation == "confidence" else -1
        values = [
            roc_auc_score([r["correct"] for r in records], [sign * r["tokur"]["scores"][name] for r in records])
            for records in runs
        ]
        assert row["auroc"]["value"] == pytest.approx(statistics.mean(values))
    last = tmp_path / "detect" / "responses-1.jsonl"
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) * 3 // 4])
    assert start(tmp_path, "detect.sh", programs, **settings).stdout == done.stdout
    assert parsed(last.read_text()) == runs[1]


def test_facts_are_counted_as_by_hand(tmp_path):
    """Ten biographies, what a judge may reply, and what a hand has made of the replies."""
    hand = parsed((ROOT / "tests" / "data" / "facts.jsonl").read_text(encoding="utf-8"))
    responses = write_lines(tmp_path / "responses.jsonl", hand)

    def run(*arguments):
        command = [sys.executable, str(PAPER / "facts.py"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return parsed(done.stdout), done.stderr

    asked, _ = run("split", responses, "Split.")
    assert [row["question"] for row in asked] == [f"Split.\n\n{row['response']}" for row in hand]
    lists = [{**row, "response": of["listed"]} for row, of in zip(asked, hand, strict=True)]
    asked, _ = run("ask", write_lines(tmp_path / "lists.jsonl", lists), responses, "True?")
    facts = [(row["question"], fact) for row in hand for fact in row["facts"]]
    assert [row["question"] for row in asked] == [
        f"True?\n\nQuestion: {question}\nStatement: {fact['fact']}" for question, fact in facts
    ]
    said = [{**row, "response": fact["verdict"]} for row, (_, fact) in zip(asked, facts, strict=True)]
    judged, err = run("quality", responses, write_lines(tmp_path / "verdicts.jsonl", said))
    assert [row["quality"] for row in judged] == pytest.approx([row["quality"] for row in hand])
    assert "1 of 26 verdicts" in err
    assert "1 of 10 responses" in err


def test_figures_improvement_and_efficiency_by_hand():
    """By hand: one response is right in 20 %, two in 30 %, eight in 44 %."""
    code = (
        "import figures\npoints = {2: (0.3, 0), 8: (0.44, 0)}\n"
        "print(*figures.improvement(points, 0.2).values(), *figures.efficiency(points, 0.2).values())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PAPER, capture_output=True, text=True, check=True)
    assert [float(word) for word in done.stdout.split()] == pytest.approx([10, 24, 10, 8])
