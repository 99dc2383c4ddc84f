"""Quantised models from the command line."""

import json

import pytest

from tests.engine.model.test_quantised import plain_model, quantise
from tests.helpers import parsed, records, write_lines
from tests.tiny import tiny_tokenizer

pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")


@pytest.fixture
def folder(tmp_path):
    for part in (plain_model(), tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_a_model_is_quantised_scored_and_generates_without_a_word(bits, run_tokur, folder, tmp_path):
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


def test_a_quantised_checkpoint_needs_no_option(run_tokur, tmp_path):
    quantise(plain_model(), "nf4", tmp_path)
    responses = write_lines(tmp_path / "responses.jsonl", records(4))
    options = ("-m", tmp_path / "nf4", "--sigma", 0.5, "-o", tmp_path / "scored.jsonl")
    assert run_tokur("score", responses, *options) == (0, "", "")
    code, _, err = run_tokur("score", responses, *options, "--quantize", "4bit", "--force")
    assert (code, err) == (
        1,
        f"tokur score: the weights of {tmp_path / 'nf4'} are quantised already: leave --quantize 4bit out\n",
    )


def test_scores_of_quantised_and_of_whole_weights_are_not_mixed_without_a_word(run_tokur, folder, tmp_path):
    """Neither in a resumed file, nor under one calibration, nor in one evaluation."""
    rows = [{**row, "correct": number % 2 == 0} for number, row in enumerate(records(24))]
    responses = write_lines(tmp_path / "responses.jsonl", rows)
    scored = tmp_path / "scored.jsonl"
    options = ("-m", folder, "--sigma", 0.5)
    assert run_tokur("score", responses, *options, "-o", scored)[0] == 0
    code, _, err = run_tokur("score", responses, *options, "--quantize", "8bit", "-o", scored, "--resume")
    assert (code, "quantize" in err) == (1, True), err
    assert run_tokur("evaluate", scored, "--fit", tmp_path / "fit.json", "--by", "eu")[0] == 0
    assert "quantize" not in json.loads((tmp_path / "fit.json").read_text())["settings"]
    with_fit = ("score", responses, *options, "--calibration", tmp_path / "fit.json")
    assert run_tokur(*with_fit)[0] == 0
    code, _, err = run_tokur(*with_fit, "--quantize", "8bit")
    assert (code, "was fitted on scores with quantize none, these are made with 8bit" in err) == (2, True), err
    _, other, _ = run_tokur("score", responses, *options, "--quantize", "8bit")
    mixed = write_lines(tmp_path / "mixed.jsonl", [*parsed(scored.read_text())[:6], *parsed(other)[6:]])
    _, _, err = run_tokur("evaluate", mixed, "--scores", "eu")
    assert "has scores of the quantisations none, 8bit, evaluated together: --group-by tokur.run.quantize" in err
