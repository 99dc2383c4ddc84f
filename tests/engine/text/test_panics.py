"""A tokenizer's panic in Rust is an error like others, though Python does not count it among its exceptions."""

import json

import pytest
from tokenizers import pre_tokenizers

from tests.tiny import tiny_model_folder, tiny_tokenizer
from tokur_cli.commands.shared.errors import reporting
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.text.panics import is_panic
from tokur_cli.engine.text.tokens import ResponseTokenizer
from tokur_cli.records.errors import TokurError

WHY = "chunk size must be non-zero"


def panicking():
    """Make a tokenizer that panics at any text."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.FixedLength(length=0)
    return tokenizer


def test_what_a_tokenizer_throws_is_no_exception():
    with pytest.raises(BaseException, match=WHY) as caught:
        panicking()("text")
    assert is_panic(caught.value)
    assert not isinstance(caught.value, Exception)


def test_a_text_that_a_tokenizer_panics_at_is_an_error_of_that_text():
    tokenizer = ResponseTokenizer(panicking(), None)
    with pytest.raises(TokurError, match=f"tokenizer fails on this text: {WHY}"):
        tokenizer.tokenize_prompt("What is 2 + 3?")


def test_a_panic_elsewhere_ends_a_command_with_one_line(capsys):
    with pytest.raises(SystemExit, match=r"^1$"), reporting("score"):
        panicking()("text")
    assert f"tokur score: PanicException: {WHY}" in capsys.readouterr().err


def damaged_folder(tmp_path):
    folder = tiny_model_folder(tmp_path)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["pre_tokenizer"] = {"type": "FixedLength", "length": 0}
    path.write_text(json.dumps(content))
    return folder


def test_a_model_whose_tokenizer_panics_is_not_loaded(tmp_path):
    with pytest.raises(TokurError, match=rf"tiny-llama can't be loaded: {WHY}"):
        load_language_model(ModelRequest(str(damaged_folder(tmp_path))))
