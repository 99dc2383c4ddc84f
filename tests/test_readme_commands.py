"""Every command of every README runs, in a shell, one after the other, on the first records of the samples.

The model is a tiny random one, under whatever name the READMEs give it, and writes little.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readmes import READMES, ROOT, blocks_of

NOT_RUN = {
    r"python3 -m venv": ".ci/run does it",
    r"\.venv/bin/(pytest|ruff)": ".ci/run does it",
    r"(\.venv/bin/)?pip install": ".ci/run does it",
    r"tokur .*--gpus-per-worker": "needs GPUs",
    r"tokur .*--workers auto": "needs GPUs",
    r"\(umask 077 && ray": "makes a token of the user's",
    r"python -m vllm": "needs vLLM",
    r"python tests/data/": "needs libraries from elsewhere",
    r"(sbatch|kubectl) ": "needs a cluster",
    r"python samples/": "needs files from elsewhere",
    r"(\w+=\S+ )*sh samples/paper/": "tests/test_paper_script.py runs the scripts",
}
MODELS = r"(?<=-m )MODEL\b"
SHORT = {"questions.jsonl": 12, "responses.jsonl": 44, "responses_n16.jsonl": 160}


@pytest.fixture
def surroundings(tmp_path, roomy_folder, programs):
    """A folder with the samples, cut short and without the real model's tokens, and ``tokur`` on the path."""
    folder = tmp_path / "clone"
    samples = folder / "samples"
    samples.mkdir(parents=True)
    for name, count in SHORT.items():
        with (samples / name).open("w", encoding="utf-8") as file:
            lines = (ROOT / "samples" / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
            of_figure = [line for line in lines[count:] if '"word-124"' in line and name == "responses_n16.jsonl"]
            for number, record in enumerate(map(json.loads, lines[:count] + of_figure)):
                if (
                    "tokur" in record
                ):  # three of four right, so that a calibration can be fitted, and a certificate made
                    answer = record["reference"] if number % 4 else "-1"
                    record["response"] = f"{record['response'][:40]}\n#### {answer}"
                    kept = {"schema", "sample", "seed", "finish_reason"}
                    record["tokur"] = {name: value for name, value in record["tokur"].items() if name in kept}
                file.write(json.dumps(record) + "\n")
    (folder / "tests").symlink_to(ROOT / "tests")
    environment = os.environ | {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TOKUR_MODEL": str(roomy_folder),
        "OMP_NUM_THREADS": "1",
    }
    return folder, environment


@pytest.mark.slow
@pytest.mark.real_model  # its cache, for the model of similarity
@pytest.mark.parametrize("readme", [readme for readme in READMES if blocks_of(readme)], ids=str)
def test_the_commands_of_a_readme_run(surroundings, roomy_folder, readme):
    folder, environment = surroundings
    for name in ("questions.jsonl", "responses.jsonl"):  # which the reader has
        (folder / name).write_bytes((folder / "samples" / name).read_bytes())
    refused = []
    for block in blocks_of(readme):
        run = [line for line in block if not any(re.match(pattern, line) for pattern in NOT_RUN)]
        lines = [line.replace(".venv/bin/", "") for line in run]
        script = "\n".join(re.sub(MODELS, str(roomy_folder), line) for line in lines)
        script = script.replace("tokur generate", "tokur generate --max-new-tokens 9")
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, capture_output=True, text=True
        )
        if process.returncode:
            refused.append(f"{script}\n{process.stderr}")
    assert not refused, "\n\n".join(refused)


def test_nothing_is_left_out_that_no_readme_has():
    lines = [line for readme in READMES for block in blocks_of(readme) for line in block]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), pattern
