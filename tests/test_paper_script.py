"""The script of the paper's online table, and the commands that the tour shows for guided generation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.score.test_score import parsed, write_lines
from tests.readmes import ROOT, block_with

pytestmark = pytest.mark.slow


def run_in(folder, *command, **environment):
    """Run a shell in a folder that has the samples, with this installation's tokur."""
    if not (folder / "samples").exists():
        (folder / "samples").symlink_to(ROOT / "samples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_prints_the_table_and_goes_on_where_it_was_stopped(tiny_folder, tmp_path):
    rows = [{"id": f"q{n}", "question": f"{n}+{n}?", "reference": str(2 * n)} for n in range(3)]
    asked = write_lines(tmp_path / "asked.jsonl", rows)
    settings = {"MODEL": str(tiny_folder), "INPUT": str(asked), "LIMIT": "2", "N": "3", "TOKENS": "12", "SEEDS": "0 1"}
    script = "samples/paper/online.sh"
    table = run_in(tmp_path, "sh", script, **settings)
    head, *lines = table.splitlines()
    assert head.split() == ["BoN", "WBoN", "majority", "Pass@1", "Pass@3"]
    assert [re.split("  +", line)[0] for line in lines] == [
        *(f"plain, by {score}" for score in ("ll", "tu_mean", "au_mean", "eu_mean")),
        *(f"guided by {score}" for score in ("ll", "tu", "au", "eu", "eu, recommended")),
    ]
    assert all(len(re.findall(r"\d+\.\d\d ± +\d+\.\d\d", line)) == 5 for line in lines)
    made = sorted((tmp_path / "online").glob("*-[01].jsonl"))
    assert len(made) == 12
    assert all(len(parsed(path.read_text())) == 6 for path in made)
    last = tmp_path / "online" / "recommended-1.jsonl"
    last.write_bytes(last.read_bytes()[:2000])
    assert run_in(tmp_path, "sh", script, **settings) == table
    assert len(parsed(last.read_text())) == 6


@pytest.mark.real_model
def test_the_tours_guided_generation_runs(tmp_path):
    block = block_with(Path("samples/README.md"), "--guide eu")
    out = run_in(tmp_path, "bash", "-ec", block.commands)
    assert "word-002: 16 particles guided by eu in " in out
    assert len(parsed((tmp_path / "particles.jsonl").read_text())) == 48
    assert [record["id"] for record in parsed((tmp_path / "best.jsonl").read_text())] == [
        "word-001", "word-002", "word-003",
    ]  # fmt: skip
