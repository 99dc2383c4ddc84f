"""What is computed in float64 is computed on the CPU where the model is on a Mac's GPU, which has none."""

import ctypes
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from tokur_cli.engine.generation.sampling import Sampling, choose_tokens
from tokur_cli.engine.posterior.basis import left_singular_vectors
from tokur_cli.engine.scoring.quantities import token_quantities
from tokur_cli.scores.quantities import ON_DEMAND, QUANTITIES

_MPS, _META = 13, 14  # c10::DeviceType


class _NoFloat64(TorchDispatchMode):
    """Refuses float64 on a Mac's GPU in PyTorch's own words."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and tensor.device.type == "mps" and tensor.dtype == torch.float64:
                raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support it")
        return result


@contextmanager
def fake_mac_gpu(monkeypatch):
    """Have tensors on "mps" be fake ones within the context, for which float64 is an error.

    Indexing and copying ask a guard for the current GPU: that of "meta", which has none, stands in for it.
    """
    if torch.__version__ < "2.13":  # (compared as versions)
        pytest.skip("the fake tensors of PyTorch before 2.13 know less of GPUs")
    monkeypatch.setattr(FakeTensor, "tolist", lambda tensor: torch.zeros(tensor.shape).tolist(), raising=False)
    library = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/libc10.[sd][oy]*"))))
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    own, guards[_MPS] = guards[_MPS], guards[_META]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _NoFloat64():
            yield
    finally:
        guards[_MPS] = own


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7), Sampling(0.7, top_k=5)])
def test_tokens_are_drawn(sampling, monkeypatch):
    with fake_mac_gpu(monkeypatch):
        logits = torch.empty(3, 700, dtype=torch.bfloat16, device="mps")
        assert choose_tokens(logits, sampling, [1, 2, -3]).shape == (3,)


@pytest.mark.parametrize("joint", [False, True])
def test_draws_are_weighted_together(joint, monkeypatch):
    with fake_mac_gpu(monkeypatch):
        hidden, head = torch.empty(3, 20, 8, device="mps"), torch.empty(8, 700, device="mps")
        targets = torch.zeros(20, dtype=torch.long, device="mps")
        before = torch.zeros(1, 2, dtype=torch.float64) if joint else None
        found = token_quantities(lambda states: states @ head, hidden, targets, [20], before=before)
        assert set(found) == (QUANTITIES.keys() - ON_DEMAND) | ({"draw_log_p"} if joint else set())
        assert all(values.device.type == "cpu" for values in found.values())


def test_weights_are_decomposed(monkeypatch):
    with fake_mac_gpu(monkeypatch):
        assert left_singular_vectors(torch.empty(16, 12, device="mps"), 4).shape == (16, 4)
