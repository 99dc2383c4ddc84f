"""What a process is told before weights are loaded."""

import sys

import pytest
import torch

from tests.engine.fake_gpu import fake_gpu
from tokur_cli.engine.loading.hardware import ALLOCATOR_SETTINGS, let_segments_expand

if not hasattr(torch._C, "_accelerator_getAllocatorSettings"):
    pytest.skip("PyTorch before 2.10 does not tell its allocator's settings", allow_module_level=True)


@pytest.fixture
def settings(monkeypatch):
    """What PyTorch's allocator is told of segments: it is asked itself."""
    for name in ALLOCATOR_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    torch._C._accelerator_setAllocatorSettings("")
    yield torch._C._accelerator_getAllocatorSettings
    torch._C._accelerator_setAllocatorSettings("expandable_segments:False")


@pytest.mark.parametrize("device_map", ["auto", "balanced", "cuda:1"])
def test_segments_grow_on_a_gpu(device_map, settings, monkeypatch):
    with fake_gpu(monkeypatch, (8, 0)) as operations:
        let_segments_expand(device_map)
    assert settings() == "expandable_segments:True"
    assert [name for name, _ in operations.calls] == ["empty"], "tried once"


@pytest.mark.parametrize("name", ALLOCATOR_SETTINGS)
def test_a_users_settings_stay(name, settings, monkeypatch):
    monkeypatch.setenv(name, "max_split_size_mb:512")
    let_segments_expand("auto")
    assert settings() == ""


@pytest.mark.parametrize(
    ("device_map", "where", "name", "value"),
    [
        ("cpu", sys, "platform", "linux"),
        ("auto", torch.cuda, "is_available", lambda: False),
        ("auto", sys, "platform", "win32"),
        ("auto", torch.version, "hip", "6.4"),
    ],
)
def test_nothing_is_told_where_there_is_no_cuda_or_it_cannot_do_it(
    device_map, where, name, value, settings, monkeypatch
):
    monkeypatch.setattr(where, name, value)
    let_segments_expand(device_map)
    assert settings() == ""


def test_a_driver_that_refuses_is_left_as_it_was(settings, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("CUDA driver error: operation not supported")

    monkeypatch.setattr(torch, "empty", refuse)
    let_segments_expand("auto")
    assert settings() == "expandable_segments:False"
