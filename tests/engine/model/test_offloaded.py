"""Weights that main memory has no room for, fetched from disk for every pass."""

import pytest

from tests.engine.loading import load, save_adapter
from tests.helpers import parsed, records, write_lines
from tests.tiny import quieten, tiny_model, tiny_tokenizer
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.posterior.basis import weight_digest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

RESPONSE = TokenizedResponse([5, 77, 130, 9], [201, 33, 34, 60])


@pytest.fixture
def folder(tmp_path):
    model = tiny_model("llama", num_hidden_layers=4)
    quieten(model, 12)
    for part in (model, tiny_tokenizer()):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def bytes_in_memory(model):
    return sum(parameter.nbytes for parameter in model.parameters() if not parameter.is_meta)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("share", [0.7, 0.0])
def test_score_numbers_are_those_of_the_model_that_is_in_memory(share, dtype, folder, tmp_path):
    """With a part of the layers on disk, with the embeddings too, and with everything."""
    whole = load(folder, dtype=dtype)
    size = sum(parameter.numel() for parameter in tiny_model("llama", num_hidden_layers=4).parameters())
    limit = int(share * size * whole.model.dtype.itemsize)
    divided = load(
        folder, dtype=dtype, device_map="auto", offload_dir=str(tmp_path / "weights"), weights_memory=limit / 2**30
    )
    assert bytes_in_memory(divided.model) <= limit
    assert "disk" in divided.model.hf_device_map.values()
    assert weight_digest(divided.model, ()) == weight_digest(whole.model, ())
    results = []
    for loaded in (whole, divided):
        draws = Draws(build_posterior(loaded.model, cache=tmp_path / "bases"), 2)
        loaded.probe.check_scoring(draws)
        loaded.probe.check_generation()
        results.append(dict(Scorer(loaded.model, draws).score([RESPONSE]))[0])
    assert len(list((tmp_path / "bases").iterdir())) == 1, "the same weights"
    for name, values in results[0].items():
        assert results[1][name] == pytest.approx(values, abs=1e-4 if dtype == "float32" else 0.2), name
    assert bytes_in_memory(divided.model) <= limit, "nothing that was fetched stays"


def test_commands_take_a_model_that_is_larger_than_what_they_may_hold(run_tokur, folder, tmp_path, caplog):
    responses = write_lines(tmp_path / "responses.jsonl", records(5))
    options = ("-m", folder, "--dtype", "float32")
    divided = (
        *options,
        "--set",
        f"offload_dir={tmp_path / 'weights'}",
        "--set",
        "weights_memory=0.00002",
    )  # 21 kB of 125
    scored = [parsed(run_tokur("score", responses, *asked)[1]) for asked in (options, divided)]
    for whole, other in zip(*scored, strict=True):
        assert other["tokur"]["run"] == whole["tokur"]["run"]
        assert other["tokur"]["scores"] == pytest.approx(whole["tokur"]["scores"], rel=1e-3, abs=1e-5)
    code, generated, err = run_tokur("generate", responses, *divided, "--max-new-tokens", 8)
    assert (code, err) == (0, "")
    _, expected, _ = run_tokur("generate", responses, *options, "--max-new-tokens", 8)
    assert generated == expected
    assert not caplog.records, "which would be shown on standard error"


def test_merge_adapter_refuses_weights_on_disk(folder, tmp_path):
    pytest.importorskip("peft")
    save_adapter(tmp_path / "adapter", "lora", folder, tiny_model("llama", num_hidden_layers=4))
    with pytest.raises(TokurError, match="weights are kept on disk"):
        load(tmp_path / "adapter", device_map="auto", offload_dir=str(tmp_path / "weights"), weights_memory=0.0)
