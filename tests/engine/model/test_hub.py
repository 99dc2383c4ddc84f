"""Loading models from the hub and its cache, and what is said when that fails."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import huggingface_hub
import pytest
import transformers
from huggingface_hub import errors as hub_errors

from tests.engine.model.test_load import load
from tests.tiny import (
    tiny_model_folder,
)
from tokur_cli.records.errors import TokurError


@pytest.fixture(autouse=True)
def _online(monkeypatch):
    monkeypatch.setattr(huggingface_hub, "is_offline_mode", lambda: False)


def hub_error(kind, status):
    network = sys.modules[hub_errors.Response.__module__.split(".")[0]]
    response = hub_errors.Response(status, request=network.Request("GET", "https://hub.example/api/models/org/tiny"))
    return kind("the hub says no", response=response)


def connect_error():
    network = sys.modules[hub_errors.Response.__module__.split(".")[0]]
    return network.ConnectError("Name or service not known")


def raiser(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        (
            hub_errors.RepositoryNotFoundError,
            404,
            "no folder org/tiny here and no model org/tiny on the Hugging Face hub",
        ),
        (hub_errors.GatedRepoError, 403, r"gated: accept its licence at https://huggingface\.co/org/tiny.*HF_TOKEN"),
        (hub_errors.RevisionNotFoundError, 404, "org/tiny has no such revision"),
    ],
)
def test_load_says_what_the_hub_refuses(kind, status, message, monkeypatch):
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", raiser(hub_error(kind, status)))
    with pytest.raises(TokurError, match=message):
        load("org/tiny")


def hub_model(*files):
    return lambda *_, **__: SimpleNamespace(sha="c0ffee", siblings=[SimpleNamespace(rfilename=file) for file in files])


def test_load_explains_a_gate_met_while_downloading(monkeypatch):
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", hub_model("config.json", "model.safetensors"))
    wrapped = OSError("You are trying to access a gated repo.")
    wrapped.__cause__ = hub_error(hub_errors.GatedRepoError, 403)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", raiser(wrapped))
    with pytest.raises(TokurError, match="is gated"):
        load("org/tiny")


def test_load_asks_for_config_tokenizer_and_weights_at_one_commit(tmp_path, monkeypatch):
    folder = tiny_model_folder(tmp_path)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", hub_model("config.json", "model.safetensors"))
    asked = []

    def download(place, name, *, revision, local_files_only):
        assert place == "org/tiny"
        asked.append((revision, local_files_only))
        return folder / name

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    for auto in (transformers.AutoConfig, transformers.AutoTokenizer, transformers.AutoModelForCausalLM):
        real = auto.from_pretrained

        def at_folder(place, *arguments, real=real, revision=None, local_files_only=None, **options):
            if place == "org/tiny":
                asked.append((revision, local_files_only))
            return real(folder, *arguments, **options)

        monkeypatch.setattr(auto, "from_pretrained", at_folder)
    load("org/tiny")
    assert asked == [("c0ffee", False)] * 3


def test_load_says_quickly_that_the_hub_is_unreachable(monkeypatch):
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", raiser(connect_error()))
    said: list[str] = []
    started = time.monotonic()
    with pytest.raises(TokurError, match=r"no folder org/tiny here, and .*hub can't be reached"):
        load("org/tiny", progress=said.append)
    assert time.monotonic() - started < 5
    assert "can't be reached (Name or service not known); looking in its local cache" in said[0]


@pytest.mark.slow
def test_load_of_a_model_in_the_hubs_cache_is_offline_and_has_its_commit(tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "hub" / "models--org--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    (cached / "snapshots").mkdir()
    tiny_model_folder(tmp_path).rename(cached / "snapshots" / commit)
    program = (
        "from tokur_cli.engine.model.load import *; m = load_language_model(ModelRequest('org/tiny')); "
        "print(m.name, m.revision)"
    )
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == (f"org/tiny {commit}\n", "")
