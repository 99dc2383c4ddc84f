"""A file is continued only with what its records were made of: the contents of files count, not their names alone."""

import json
import shutil

import pytest

from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_model
from tokur_cli.commands.shared.digests import model_digest

SCORE = ["score", "--scores", "eu", "--no-tokens"]
GENERATE = ["generate", "--max-new-tokens", "3"]
BOTH = [*GENERATE, "--score", "--no-tokens"]
COMMANDS = {"score": SCORE, "generate": GENERATE, "generate --score": BOTH}


@pytest.fixture
def model(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "model")


def edit_template(model):
    (model.parent / "template").write_text("Now {{ question }}!")


def edit_examples(model):
    write_lines(model.parent / "examples", [{"question": "1 + 1?", "response": "3"}])


def edit_chat_template(model):
    text = (model / "chat_template.jinja").read_text()
    (model / "chat_template.jinja").write_text(text.replace("<|im_start|>assistant", "<|im_start|>robot"))


def train(model):
    trained = tiny_model("llama", seed=1)
    trained.save_pretrained(model)


def edit_config(model):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 0.1}))


EDITS = {
    "template": (edit_template, "template_digest"),
    "examples": (edit_examples, "few_shot_digest"),
    "chat template": (edit_chat_template, "chat_template_digest"),
    "weights": (train, "model_digest"),
    "config": (edit_config, "model_digest"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("edit", "named"), EDITS.values(), ids=EDITS)
def test_an_edited_file_is_noticed(run_tokur, model, tmp_path, command, edit, named):
    (tmp_path / "template").write_text("Please: {{ question }}")
    write_lines(tmp_path / "examples", [{"question": "1 + 1?", "response": "2"}])
    options = ["-m", model, "--few-shot", tmp_path / "examples", "-o", tmp_path / "out"]
    if edit is edit_template:
        options += ["--template", tmp_path / "template"]
    given = write_lines(tmp_path / "in", records(2))
    assert run_tokur(*command, *options, given)[0] == 0
    write_lines(given, records(3))
    before = (tmp_path / "out").read_bytes()
    edit(model)
    code, _, err = run_tokur(*command, *options, given, "--resume")
    assert code == 1
    assert "out:1: was written with another content of " in err
    assert f"{named.removesuffix('_digest')}: " in err
    assert f"{named} " in err
    assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_was_not_edited_goes_on(run_tokur, model, tmp_path, command):
    """A copy of the files, new dates and what else lies in the model's folder are no edits."""
    write_lines(tmp_path / "examples", [{"question": "1 + 1?", "response": "2"}])
    options = ["-m", model, "--few-shot", tmp_path / "examples"]
    given = write_lines(tmp_path / "in", records(3))
    assert run_tokur(*command, *options, "-o", tmp_path / "whole", given)[0] == 0
    write_lines(given, records(1))
    assert run_tokur(*command, *options, "-o", tmp_path / "cut", given)[0] == 0
    write_lines(given, records(3))
    for file in model.iterdir():
        shutil.copyfile(file, tmp_path / "copy")
        file.unlink()
        shutil.copyfile(tmp_path / "copy", file)
    (model / "notes.jsonl").write_text("{}\n")
    (model / "README.md").write_text("mine")
    code, _, err = run_tokur(*command, *options, "-o", tmp_path / "cut", given, "--resume")
    assert (code, err) == (0, "")
    assert len(parsed((tmp_path / "cut").read_text())) == 3


def test_the_template_of_scoring_is_a_setting_where_prompts_are_made_by_it(run_tokur, model, tmp_path):
    options = ["-m", model, "-o", tmp_path / "out"]
    given = write_lines(tmp_path / "in", records(2))
    assert run_tokur(*SCORE, *options, given)[0] == 0
    code, _, err = run_tokur(*SCORE, *options, given, "--resume", "--template", "raw")
    assert (code, 'prompts.template "chat", but this run has prompts.template "raw"' in err) == (1, True)
    generated = tmp_path / "generated"
    run_tokur(*GENERATE, "-m", model, "-o", generated, given)
    run_tokur(*SCORE, *options, "--force", generated)
    assert "prompts" not in json.loads((tmp_path / "out").read_text().splitlines()[0])["tokur"]["run"]
    assert run_tokur(*SCORE, *options, generated, "--resume", "--template", "raw")[0] == 0


def test_a_large_file_is_told_by_parts_of_it(tmp_path):
    weights = tmp_path / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(40 << 20)
    first = model_digest(str(tmp_path))
    assert model_digest(str(tmp_path)) == first
    assert model_digest(str(weights)) != first
    with weights.open("r+b") as file:
        file.seek(17 << 20)
        file.write(b"\1" * (1 << 16))
    assert model_digest(str(tmp_path)) != first
    assert model_digest("nobody/model") is None
