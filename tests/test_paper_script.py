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
QUICK = {
    "LIMIT": "2",
    "TOKENS": "12",
    "TEMPLATE": "chat",
    "DTYPE": "float32",
    "SCORES": "default",
    "FORM": "jsonl",
    "SEEDS": "0 1",
}


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


MATH500, GSM8K = "hf:HuggingFaceH4/MATH-500:test", "hf:openai/gsm8k/main:train"
DEEPSCALER = "hf:agentica-org/DeepScaleR-Preview-Dataset:train"
GYM = [f"gym:{task}?size=100&seed=1" for task in ("zebra_puzzles", "leg_counting", "color_cube_rotation")]
LLAMA, QWEN = "meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen2.5-3B-Instruct"
AS_THEY_STAND = {
    "detect": (
        LLAMA,
        [f"{MATH500}[:500]", f"{GSM8K}[:1300]", f"{DEEPSCALER}[:5000]"],
    ),
    "scaling": (LLAMA, [f"{GSM8K}[:1300]", f"{MATH500}[:500]"]),
    "online": (LLAMA, [f"{MATH500}[:500]"]),
    "logic": (QWEN, GYM),
    "code": (QWEN, ["hf:openai/openai_humaneval:test[:164]"]),
    "facts": (
        QWEN,
        ["hf:lvogel123/factscore:train[:1000000]", "facts/facts-asked.jsonl", "facts/verdicts-asked.jsonl"],
    ),
    "difficulty": (LLAMA, ["hf:Open-Reasoner-Zero/orz_math_57k_collection:train[:20000]"]),
    "sigma": (LLAMA, ["hf:openai/gsm8k/main:test[:1319]"]),
    "temperature": (LLAMA, [f"{MATH500}[:500]"]),
    "stepwise": (LLAMA, [f"{MATH500}[:500]"]),
    "cases": (
        LLAMA,
        [
            *(f"{GSM8K}[{row}:{row + 1}]" for row in (1178, 1190)),
            *(f"cases/math500-{number}-question.jsonl" for number in (1298, 260)),
        ],
    ),
}
SAMPLED = {"scaling": ("512", "0.8"), "stepwise": ("512", "0.8"), "online": ("16", "0.8"), "difficulty": ("10", "0.8")}


@pytest.mark.parametrize("name", AS_THEY_STAND)
def test_paper_scripts_ask_for_the_papers_data_and_settings(name, tmp_path):
    """A program in the place of tokur keeps what it is asked for."""
    published(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tokur"
    program.write_text(
        '#!/bin/sh\nprintf \'%s\\t\' "$@" >> "$ASKED"; echo >> "$ASKED"\n'
        'while [ $# -gt 0 ]; do case $1 in -o | --graded) : > "$2" ;; esac; shift; done\n'
        "echo accuracy 1% majority 1% Pass@1 1% Pass@16 1% >&2\n"
        """echo '{"tu": 1, "au": 1, "eu": 1, "auroc": {"value": 1, "tu": 1, "au": 1, "eu": 1}, """
        """"score": "eu_mean", "scaling": """
        """[{"method": "maj", "n": 2, "mean": 1, "std": 0}, {"method": "pass@1", "n": 2, "mean": 1}]}'\n""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    asked = tmp_path / "asked"
    done = start(tmp_path, f"{name}.sh", program.parent, ASKED=str(asked), FORM="latex", HF_HOME=str(tmp_path / "hub"))
    assert done.returncode == 0, done.stderr
    if name == "detect":
        titles = [line for line in done.stdout.splitlines() if line and not line.startswith("{")]
        assert titles == ["% math500", "% gsm8k", "% deepscaler"]
    calls = [line.rstrip("\t").split("\t") for line in asked.read_text(encoding="utf-8").splitlines()]
    made = [call for call in calls if call[0] == "generate"]
    language_model, inputs = AS_THEY_STAND[name]
    assert list(dict.fromkeys(call[1] for call in made)) == inputs
    assert after(made[0], "-m") == language_model
    assert {after(call, "--template") for call in made} == {"math" if language_model == LLAMA else "chat"}
    if name in SAMPLED:
        assert (after(made[-1], "-n"), after(made[-1], "--temperature")) == SAMPLED[name]
    if name in ("detect", "logic", "code"):  # what is greedy needs no seed; the draws have three
        assert not {"-n", "--temperature", "--seed"} & {word for call in made for word in call}
        seeds = [after(call, "--seed") for call in calls if call[0] == "score"]
        assert seeds == ["0", "1", "2"] * len(inputs)
    if name in ("scaling", "stepwise"):
        votes = [call for call in calls if call[0] == "evaluate"]
        assert {after(call, "--scaling") for call in votes} == {"16,32,64,128,256,512"}
        assert {(after(call, "--keep"), after(call, "--repeats")) for call in votes} == {("10%", "10")}


def published(folder):
    """Put data sets in the place of the hub's: rows of GSM8K that name their place, and three of MATH500."""
    rows = [{"question": f"Row {n}: 1+1?", "answer": "1+1=<<1+1=2>>2\n#### 2"} for n in range(1200)]
    identifiers = ["test/prealgebra/260.json", "test/algebra/1298.json", "test/prealgebra/1298.json"]
    asked = [{"problem": f"Of {name}: 1+1?", "answer": "2", "unique_id": name} for name in identifiers]
    for path, lines in (("openai/gsm8k/main/train.jsonl", rows), ("HuggingFaceH4/MATH-500/test.jsonl", asked)):
        (folder / path).parent.mkdir(parents=True)
        write_lines(folder / path, lines)


def after(call, option):
    return call[call.index(option) + 1] if option in call else None


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
