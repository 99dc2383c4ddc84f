"""Quantised models from the command line."""

import pytest

from tests.engine.loading import plain_model
from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_tokenizer

pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")


@pytest.fixture
def folder(tmp_path):
    for part in (plain_model(), tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_quantize_a_model_is_quantised_scored_and_generates_without_a_word(bits, run_tokur, folder, tmp_path):
    responses = write_lines(tmp_path / "responses.jsonl", records(4))
    options = ("-m", folder, "--quantize", bits, "--sigma", 0.5)
    code, out, err = run_tokur("score", responses, *options)
    assert (code, err) == (0, "")
    assert [record["tokur"]["run"]["quantize"] for record in parsed(out)] == [bits] * 4
    assert all(record["tokur"]["scores"]["eu"] > 0 for record in parsed(out))
    _, plain, _ = run_tokur("score", responses, "-m", folder, "--sigma", 0.5)
    assert "quantize" not in parsed(plain)[0]["tokur"]["run"]
    assert parsed(plain)[0]["tokur"]["scores"]["ll"] != parsed(out)[0]["tokur"]["scores"]["ll"]
    code, generated, err = run_tokur("generate", responses, *options[:4], "--max-new-tokens", 4)
    assert (code, err) == (0, "")
    assert {record["tokur"]["generation"]["quantize"] for record in parsed(generated)} == {bits}
    code, _, err = run_tokur("perturb", *options, "-o", tmp_path / "posterior")
    assert code == 0
    code, kept, err = run_tokur("score", responses, *options[:4], "--posterior", tmp_path / "posterior")
    assert (code, err) == (0, "")
    assert parsed(kept)[0]["tokur"]["scores"] == parsed(out)[0]["tokur"]["scores"]
