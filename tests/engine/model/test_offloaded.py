"""Weights that main memory has no room for, fetched from disk for every pass."""

import pytest

from tests.engine.loading import load, save_adapter
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


def test_merge_adapter_refuses_weights_on_disk(folder, tmp_path):
    pytest.importorskip("peft")
    save_adapter(tmp_path / "adapter", "lora", folder, tiny_model("llama", num_hidden_layers=4))
    with pytest.raises(TokurError, match="weights are kept on disk"):
        load(tmp_path / "adapter", device_map="auto", offload_dir=str(tmp_path / "weights"), weights_memory=0.0)
