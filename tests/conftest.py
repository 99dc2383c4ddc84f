"""What every test runs under: no hub, no user's cache, few threads."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.pop("TOKUR_MODEL", None)
os.environ.pop("TOKUR_DEBUG", None)


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_tiny_models():
    """Threads cost more than they bring on 2-layer models; real models get them back."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh current folder, for commands that write files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
