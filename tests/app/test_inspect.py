"""tokur as a scorer of the real Inspect AI adds to a log what ``tokur score`` computes of it."""

import json
import math
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers import parsed, records, write_lines
from tests.records.reading import DATA
from tests.tiny import tiny_model_folder

inspect_ai = pytest.importorskip("inspect_ai")


@pytest.fixture
def uncertainty():
    from tokur_cli.app.inspect import uncertainty

    return uncertainty


def by_sample(records):
    return {record["id"]: record["tokur"]["scores"] for record in records}


def scored_log(path, *scorers):
    from inspect_ai.log import read_eval_log

    return inspect_ai.score(read_eval_log(str(path)), list(scorers), action="append", display="none")


@pytest.mark.parametrize("name", ["included", "reasoning", "tools"])
def test_a_log_gains_the_scores_that_tokur_gives_its_samples(uncertainty, run_tokur, tiny_folder, name):
    path = DATA / f"inspect_{name}.eval"
    log = scored_log(path, uncertainty(model=str(tiny_folder), scores="eu,ll_sum,tu_mean", dtype="float32"))
    code, out, err = run_tokur(
        "score", path, "-m", tiny_folder, "--scores", "eu,ll_sum,tu_mean", "--no-tokens", "--dtype", "float32"
    )
    assert code == 0, err
    expected = by_sample(parsed(out))
    for sample in log.samples:
        assert sample.scores["uncertainty"].value == pytest.approx(expected[sample.id], rel=1e-4)
        assert len(sample.scores) == 2, "the log's own score stays"
    means = {score.name: score.metrics["mean"].value for score in log.results.scores if score.scorer == "uncertainty"}
    assert means.keys() == {"eu", "ll_sum", "tu_mean"}
    for score, value in means.items():
        assert value == pytest.approx(sum(scores[score] for scores in expected.values()) / len(expected), rel=1e-4)


def test_a_sample_that_cannot_be_scored_is_said_to_be_unscored_and_the_others_are_scored(
    uncertainty, tiny_folder, tmp_path
):
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(DATA / "inspect_included.eval"))
    log.samples[1].output.choices[0].message.content = ""
    log.samples[1].messages = log.samples[1].messages[:1]
    write_eval_log(log, str(tmp_path / "log.eval"))
    first, second, third = scored_log(tmp_path / "log.eval", uncertainty(model=str(tiny_folder))).samples
    assert first.scores["uncertainty"].value["eu"] > 0 < third.scores["uncertainty"].value["eu"]
    score = second.scores["uncertainty"]
    assert (score.value != score.value, score.reason) == (True, "scoring_failed")
    assert "the response is empty" in score.explanation


def test_logs_of_two_models_are_scored_by_their_own_weights(uncertainty, run_tokur, tmp_path):
    """As of ``inspect eval --model A,B`` with this scorer: the samples of both come to one process at once."""
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    folders = [tiny_model_folder(tmp_path / name, seed=seed) for seed, name in enumerate("ab")]

    def model(folder, number):
        outputs = [ModelOutput.from_content(str(folder), f"It is {number}.") for number in range(4)]
        for output in outputs:
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return get_model(f"mockllm/{number}", custom_outputs=outputs, memoize=False)

    samples = [Sample(id=f"q{number}", input=f"{number}?", target="1") for number in range(4)]
    task = inspect_ai.Task(samples, scorer=uncertainty(scores="ll_sum", dtype="float32"))
    logs = inspect_ai.eval(
        task,
        model=[model(folder, number) for number, folder in enumerate(folders)],
        log_dir=str(tmp_path / "logs"),
        display="none",
        log_model_api=False,
        max_tasks=2,
    )
    for log, folder in zip(logs, folders, strict=True):
        command = ("score", log.location, "-m", folder, "--scores", "ll_sum", "--no-tokens", "--dtype", "float32")
        code, out, err = run_tokur(*command)
        assert code == 0, err
        expected = by_sample(parsed(out))
        assert log.status == "success", log.error
        for sample in log.samples:
            assert sample.scores["uncertainty"].value == pytest.approx(expected[sample.id], rel=1e-4)


def test_a_process_loads_a_model_once_and_asks_it_in_one_thread_at_a_time(uncertainty, tiny_folder, monkeypatch):
    from tokur_cli.app import python

    loaded, at_once, load, score = [], [], python.load, python.Tokur.score
    busy = threading.Lock()

    def counted_load(*arguments):
        loaded.append(arguments)
        return load(*arguments)

    def watched_score(self, rows):
        at_once.append(busy.acquire(blocking=False))
        try:
            yield from score(self, rows)
        finally:
            busy.release()

    monkeypatch.setattr(python, "load", counted_load)
    monkeypatch.setattr(python.Tokur, "score", watched_score)
    for name in ("included", "several"):
        scored_log(DATA / f"inspect_{name}.eval", uncertainty(model=str(tiny_folder), seed=7))
    assert len(loaded) == 1
    assert at_once
    assert all(at_once)


def test_with_a_calibration_a_log_gains_the_probability_of_being_right(uncertainty, run_tokur, tiny_folder, tmp_path):
    rows = [{**record, "correct": len(record["response"]) % 3 == 0} for record in records(40)]
    given, scored, fit = (tmp_path / name for name in ("in.jsonl", "scored.jsonl", "fit.json"))
    _, out, _ = run_tokur("score", write_lines(given, rows), "-m", tiny_folder, "--dtype", "float32")
    code, _, err = run_tokur("evaluate", write_lines(scored, parsed(out)), "--fit", fit, "--bootstrap", 0)
    assert code == 0, err
    fitted = json.loads(fit.read_text())
    scorer = uncertainty(
        model=str(tiny_folder), scores=",".join(fitted["scores"]), dtype="float32", calibration=str(fit)
    )
    for sample in scored_log(DATA / "inspect_included.eval", scorer).samples:
        value = sample.scores["uncertainty"].value
        weighted = zip(fitted["weights"], fitted["scores"], strict=True)
        margin = fitted["intercept"] + sum(weight * value[name] for weight, name in weighted)
        assert value["p_correct"] == pytest.approx(1 / (1 + math.exp(-margin)))


@pytest.mark.slow
def test_the_command_line_of_inspect_finds_the_scorer(run_tokur, tiny_folder, tmp_path):
    path = tmp_path / "log.eval"
    shutil.copy(DATA / "inspect_graded.eval", path)
    inspect = Path(sys.executable).with_name("inspect")
    command = [
        inspect,
        "score",
        path,
        "--scorer",
        "tokur/uncertainty",
        "-S",
        f"model={tiny_folder}",
        "-S",
        "draws=3",
        "-S",
        "dtype=float32",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*command, "--action", "append", "--overwrite"], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    code, out, err = run_tokur(
        "score", path, "-m", tiny_folder, "--draws", "3", "--scores", "eu,ll_sum", "--dtype", "float32"
    )
    assert code == 0, err
    scored = parsed(out)
    for record in scored:
        said = record["scores"]["uncertainty"]["value"]
        assert said == pytest.approx(record["tokur"]["scores"], rel=1e-4)
        assert record["scores"]["uncertainty"]["metadata"]["tokur"]["draws"] == 3
    labels = {record["id"]: record.get("correct", record.get("quality")) for record in scored}
    assert labels == {"sum": True, "sky": 0.5, "sea": False, "sand": None}, "by the log's own scorer"
