"""Errors that say that memory is short are told from others."""

import pytest
import torch

from tokur_cli.engine.memory import is_out_of_memory


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
