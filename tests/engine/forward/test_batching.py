"""Errors that say that memory is short are told from others; the fullest device counts, and no other is asked."""

import pytest
import torch

from tokur_cli.engine.forward.batching import available_bytes, is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        getattr(torch, "AcceleratorError", RuntimeError)("CUDA error: out of memory"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("HIP out of memory. Tried to allocate 9.00 GiB"),
        RuntimeError("XPU out of memory. Tried to allocate 9.00 GiB"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_too_little_memory_is_recognised(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        *(RuntimeError(), RuntimeError(7), RuntimeError(None), RuntimeError("shape"), KeyError("out of memory")),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    ],
)
def test_other_errors_are_no_lack_of_memory(error):
    assert not is_out_of_memory(error)


def test_the_fullest_of_the_devices_counts_and_no_other_is_asked(monkeypatch):
    """Asking a GPU opens a context there, which takes hundreds of megabytes."""
    free, asked = {0: 9 << 30, 1: 2 << 30, 2: 1 << 30}, []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda gpu: (asked.append(gpu.index), (free[gpu.index], 9 << 30))[1]
    )
    devices = [torch.device(name) for name in ("cuda:0", "cuda:1", "meta", "cuda:0")]
    assert available_bytes(devices) == 2 << 30
    assert sorted(asked) == [0, 1]
