import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.engine.forward.batching import HalvingBatches, available_bytes, is_out_of_memory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError(7), False),
        (KeyError("out of memory"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), False),
    ],
)
def test_is_out_of_memory_knows_what_libraries_say(error, expected):
    assert is_out_of_memory(error) == expected


def test_available_bytes_are_those_of_the_fullest_device_and_no_other_is_asked(monkeypatch):
    """Asking a GPU opens a context there, which takes hundreds of megabytes."""
    free, asked = {0: 9 << 30, 1: 2 << 30, 2: 1 << 30}, []
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda gpu: (asked.append(gpu.index), (free[gpu.index], 9 << 30))[1]
    )
    devices = [torch.device(name) for name in ("cuda:0", "cuda:1", "meta", "cuda:0")]
    assert available_bytes(devices) == 2 << 30
    assert sorted(asked) == [0, 1]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(1, 3000), st.integers(0, 900))
def test_padded_holds_every_sequence_once_in_rows_of_like_length(lengths, budget, before):
    batches = list(HalvingBatches(budget).padded(dict(enumerate(lengths)), before))
    assert sorted(itertools.chain(*batches)) == [*range(len(lengths))]
    for batch in batches:
        longest, shortest = lengths[batch[0]], min(lengths[index] for index in batch)
        assert longest == max(lengths[index] for index in batch)
        assert shortest >= min(0.9 * longest, longest - 8)
        assert len(batch) == 1 or len(batch) * (longest + before // 8) <= budget
