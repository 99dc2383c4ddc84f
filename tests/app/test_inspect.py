"""tokur as a scorer of the real Inspect AI adds to a log what ``tokur score`` computes of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import parsed
from tests.records.reading import DATA
from tests.tiny import tiny_model_folder

inspect_ai = pytest.importorskip("inspect_ai")


@pytest.fixture
def uncertainty():
    from tokur_cli.app.inspect import uncertainty

    return uncertainty


@pytest.fixture
def by_command(run_tokur):
    def score(path, folder, names):
        options = ("--scores", names, "--no-tokens", "--dtype", "float32")
        code, out, err = run_tokur("score", path, "-m", folder, *options)
        assert code == 0, err
        return {record["id"]: record["tokur"]["scores"] for record in parsed(out)}

    return score


def scored_log(path, *scorers):
    from inspect_ai.log import read_eval_log

    return inspect_ai.score(read_eval_log(str(path)), list(scorers), action="append", display="none")


@pytest.mark.parametrize("name", ["included", "reasoning", "tools"])
def test_inspect_log_gains_the_scores_that_the_command_gives(uncertainty, by_command, tiny_folder, name):
    path, names = DATA / f"inspect_{name}.eval", "eu,ll_sum,tu_mean"
    log = scored_log(path, uncertainty(model=str(tiny_folder), scores=names, dtype="float32"))
    expected = by_command(path, tiny_folder, names)
    for sample in log.samples:
        assert sample.scores["uncertainty"].value == pytest.approx(expected[sample.id], rel=1e-4)
        assert len(sample.scores) == 2, "the log's own score stays"


def test_inspect_sample_that_cannot_be_scored_is_unscored_and_the_others_are_scored(uncertainty, tiny_folder, tmp_path):
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(DATA / "inspect_included.eval"))
    log.samples[1].output.choices[0].message.content = ""
    log.samples[1].messages = log.samples[1].messages[:1]
    write_eval_log(log, str(tmp_path / "log.eval"))
    first, second, third = scored_log(tmp_path / "log.eval", uncertainty(model=str(tiny_folder))).samples
    assert first.scores["uncertainty"].value["eu"] > 0 < third.scores["uncertainty"].value["eu"]
    assert second.scores["uncertainty"].reason == "scoring_failed"
    assert "the response is empty" in second.scores["uncertainty"].explanation


def test_inspect_logs_of_two_models_are_scored_by_their_own_weights(uncertainty, by_command, tmp_path, monkeypatch):
    """As of ``inspect eval --model A,B`` with this scorer: one process gets samples of both, and loads each once."""
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from tokur_cli.app import python

    loaded, load = [], python.load
    monkeypatch.setattr(python, "load", lambda *given: loaded.append(given[0].name) or load(*given))
    folders = [tiny_model_folder(tmp_path / name, seed=seed) for seed, name in enumerate("ab")]

    def model(folder, number):
        outputs = [ModelOutput.from_content(str(folder), f"It is {number}.") for number in range(4)]
        for output in outputs:
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return get_model(f"mockllm/{number}", custom_outputs=outputs, memoize=False)

    samples = [Sample(id=f"q{number}", input=f"{number}?", target="1") for number in range(4)]
    task = inspect_ai.Task(samples, scorer=uncertainty(scores="ll_sum", dtype="float32"))
    models = [model(folder, number) for number, folder in enumerate(folders)]
    quiet = {"display": "none", "log_model_api": False}
    logs = inspect_ai.eval(task, model=models, log_dir=str(tmp_path / "logs"), max_tasks=2, **quiet)
    assert sorted(loaded) == sorted(map(str, folders))
    for log, folder in zip(logs, folders, strict=True):
        assert log.status == "success", log.error
        expected = by_command(log.location, folder, "ll_sum")
        for sample in log.samples:
            assert sample.scores["uncertainty"].value == pytest.approx(expected[sample.id], rel=1e-4)


@pytest.mark.slow
def test_inspect_command_line_finds_the_scorer(tiny_folder, tmp_path):
    from inspect_ai.log import read_eval_log

    path = shutil.copy(DATA / "inspect_graded.eval", tmp_path / "log.eval")
    options = (word for one in (f"model={tiny_folder}", "draws=3") for word in ("-S", one))
    command = [Path(sys.executable).with_name("inspect"), "score", path, "--scorer", "tokur/uncertainty", *options]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command += ["--action", "append", "--overwrite"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for sample in read_eval_log(str(path)).samples:
        assert sample.scores["uncertainty"].metadata["tokur"]["draws"] == 3
