"""A token quantity has two places: where the engine computes it, and its entry in the table."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.commands.score.test_score import parsed, write_lines
from tests.copied_package import copied_package
from tests.tiny import tiny_model
from tokur_cli.scores.steps import AGGREGATES

COMPUTED = (
    "engine/uncertainty/vocabulary.py",
    "    of_base = {\n",
    '    of_base = {\n        "margin": -distributions.logits[0].topk(2).values.float().diff().squeeze(-1),\n',
)
ENTRY = (
    "scores/quantities.py",
    '        Quantity("entropy", ',
    '        Quantity("margin", "the two likeliest tokens, apart", "confidence", aggregate="mean"),\n'
    '        Quantity("entropy", ',
)
TEXT = "Six.\nSeven."
SCORED = {
    "id": "a",
    "question": "?",
    "response": TEXT,
    "claims": [{"start": 0, "end": 5, "correct": False}, {"start": 5, "end": 11, "correct": True}],
    "tokur": {"scores": {}, "tokens": {"offsets": [[0, 4], [4, 5], [5, 11]], "margin": [0.25, 0.5, 3.0]}},
}


@pytest.fixture(scope="module")
def tokur(tmp_path_factory):
    """Run the command line of a copy of the package with the two edits; returns its standard output."""
    folder = tmp_path_factory.mktemp("copy")
    environment = copied_package(folder, *COMPUTED) | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    file, old, new = ENTRY
    table = folder / "tokur_cli" / file
    assert table.read_text().count(old) == 1
    table.write_text(table.read_text().replace(old, new))

    def run(*arguments):
        command = [sys.executable, "-m", "tokur_cli", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(("command", "option"), [("heatmap", "--score"), ("generate", "--guide")])
def test_it_is_in_the_helps(tokur, command, option):
    told = re.search(rf"^  {option} \S+ (.*?)^  --", tokur(command, "--help"), re.DOTALL | re.MULTILINE)[1]
    assert "margin" in re.findall(r"\w+", told)


def test_a_heat_map_paints_it_from_its_unsure_end(tokur, tmp_path):
    told = tokur("heatmap", write_lines(tmp_path / "scored.jsonl", [SCORED]), "--score", "margin")
    assert "the two likeliest tokens, apart" in told
    sure, unsure = map(float, re.search(r"^sure .(\S+) .* (\S+) unsure$", told, re.MULTILINE).groups())
    assert sure == 3.0 > unsure
    assert "the least sure by the mean of margin" in told


def test_labelled_steps_are_judged_by_it(tokur, tmp_path):
    told = parsed(tokur("evaluate", write_lines(tmp_path / "s.jsonl", [SCORED]), "--level", "step", "--bootstrap", 0))
    found = {line["score"]: line for line in told}
    assert [name for name in found if name.startswith("margin")] == [f"margin_{how}" for how in AGGREGATES]
    for how in AGGREGATES:
        assert found[f"margin_{how}"]["auroc"]["value"] == 1.0, (
            "a confidence: the step with less of it is the wrong one"
        )


@pytest.mark.slow
def test_a_guided_generation_and_a_scoring_compute_it(tokur, tiny_folder, tmp_path):
    asked = write_lines(tmp_path / "q.jsonl", [{"id": "q", "question": "How many?"}])
    generated = tmp_path / "generated.jsonl"
    guided = ["--guide", "margin", "-n", 3, "--set", "step_tokens=3", "--max-new-tokens", 9, "--dtype", "float32"]
    tokur("generate", asked, "-m", tiny_folder, *guided, "--score", "-o", generated)
    particles = parsed(generated.read_text())
    steps = parsed(tokur("score", generated, "--dtype", "float32", "--steps"))
    model = tiny_model().double()
    assert len(particles) == 3
    for particle, scored in zip(particles, steps, strict=True):
        ids = particle["tokur"]["prompt_token_ids"] + particle["tokur"]["token_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, len(particle["tokur"]["prompt_token_ids"]) - 1 : -1]
        largest = np.sort(logits.log_softmax(-1).numpy())[:, -2:]
        margin = largest[:, 1] - largest[:, 0]
        for record in (particle, scored):
            assert record["tokur"]["tokens"]["margin"] == pytest.approx(margin, abs=2e-5)
        assert particle["tokur"]["generation"]["guide"] == "margin"
        assert particle["tokur"]["particle"]["scores"][-1] == pytest.approx(margin.mean(), abs=2e-5)
        last = scored["tokur"]["steps"][-1]["margin"]
        assert last["max"] <= last["mean"] <= margin.max() + 2e-5, "the least sure token has the smallest margin"
        together = sum(step["margin"]["sum"] for step in scored["tokur"]["steps"])
        assert together == pytest.approx(margin.sum(), abs=1e-4)
