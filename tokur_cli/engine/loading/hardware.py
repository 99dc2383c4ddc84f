"""What this machine computes fast, and where a model's weights fit."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

DTYPES = ("bfloat16", "float32", "float16")
SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
DEVICES = ("cpu", "cuda", "mps", "xpu", "npu", "hpu", "mlu", "musa", "sdaa", "mtia", "xla")
SHARE_FOR_WEIGHTS = 0.9  # of a GPU's free memory; the rest is for activations

KERNEL_CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
KERNELS_KEPT = "64"
ALLOCATOR_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the first one is read from PyTorch 2.9 on

CPU_INFO = Path("/proc/cpuinfo")
CPU_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})


def check_device_map(name: str) -> None:
    """Refuse what is no device map by its spelling, for which torch need not be imported.

    Raises:
        UsageError: it is none.
    """
    if name not in SPREADING and re.fullmatch(rf"({'|'.join(DEVICES)})(:\d+)?", name) is None:
        raise _unknown(name)


def _unknown(device_map: str) -> UsageError:
    return UsageError(
        f"unknown device map {device_map!r}; use {', '.join(SPREADING)} or a device such as cpu, cuda, cuda:1"
    )


def resolve_dtype(dtype: str, device_map: str) -> torch.dtype:
    """Return the dtype to load in; ``auto`` is bfloat16 where the hardware multiplies it fast, else float32.

    Raises:
        UsageError: the name isn't known.
    """
    import torch

    if dtype == "auto":
        return torch.bfloat16 if multiplies_bfloat16_fast(device_type(device_map)) else torch.float32
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}; use auto, {', '.join(DTYPES)}")
    resolved: torch.dtype = getattr(torch, dtype)
    return resolved


def limit_kernel_caches() -> None:
    """Have oneDNN keep the compiled kernels of the last few shapes only; to be called before anything is computed.

    Nearly every batch has shapes of its own, which its layers share and no other batch does. By default the kernels of
    1,024 shapes are kept, in each of two caches (PyTorch's and oneDNN's own), half a megabyte and more each.
    """
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, KERNELS_KEPT)


def let_segments_expand(device_map: str) -> None:
    """Have PyTorch's segments of a GPU's memory grow, unless the user has settings; before weights are loaded.

    Nearly every batch has shapes of its own. Segments of a fixed size would be left with gaps that later batches do not
    fit into. PyTorch reads its environment when it is imported, and other engines' processes would inherit that: so the
    allocator of this process is told. Some drivers (of virtual GPUs, say) cannot; then all stays as it was.
    """
    import torch

    if device_type(device_map) != "cuda" or sys.platform != "linux" or torch.version.hip:
        return
    if any(name in os.environ for name in ALLOCATOR_SETTINGS):
        return
    tell = getattr(torch._C, "_accelerator_setAllocatorSettings", None) or torch.cuda.memory._set_allocator_settings
    tell("expandable_segments:True")
    try:
        torch.empty(1, device="cuda" if device_map in SPREADING else device_map)
    except RuntimeError:
        tell("expandable_segments:False")


def count_gpus() -> int:
    """Return how many GPUs this process may use."""
    import torch

    return torch.cuda.device_count()


def count_cores() -> int:
    """Return how many of the processor's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Offload:
    """Where weights go that the devices have no room for.

    Args:
        folder: for those that main memory has none for either, if their files are not of the dtype that is wanted.
        limit: bytes of weights on each device, and in main memory; None for what is free.
    """

    folder: str
    limit: int | None = None


def place_weights(device_map: str, weights_bytes: int, offload: Offload | None = None) -> dict[str, Any]:
    """Choose where the weights go: the ``device_map`` and ``max_memory`` for transformers' ``from_pretrained``.

    ``auto`` takes the GPU with the most free memory if the model fits there, spreads it over all GPUs if not, and takes
    the CPU where there is no GPU. Without ``offload``, weights are kept where they are computed with: a model that
    doesn't fit is an error. With it, those that don't fit are kept in main memory and on disk, as accelerate divides
    them, and fetched when they are needed.

    Args:
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        weights_bytes: size of all weights in the dtype they are loaded in; 0 skips the check.
        offload: where those go that don't fit; None for nowhere.

    Raises:
        UsageError: no such device, or a single one with ``offload``.
        TokurError: too little memory.
    """
    from accelerate.utils import get_max_memory

    free: dict[int | str, int] = get_max_memory()
    if offload is not None:
        if device_map not in SPREADING:
            raise UsageError(
                f"--set offload_dir divides the weights, and --device-map {device_map} is one place: leave one out"
            )
        room = {place: int(memory * SHARE_FOR_WEIGHTS) for place, memory in free.items()}
        if offload.limit is not None:
            room = {place: min(memory, offload.limit) for place, memory in room.items()}
        return {"device_map": device_map, "max_memory": room, "offload_folder": offload.folder}
    gpus = {index: int(memory * SHARE_FOR_WEIGHTS) for index, memory in free.items() if isinstance(index, int)}
    if device_map not in SPREADING:
        device = _device(device_map)
        index = device.index or 0
        if device.type == "cpu" or index not in gpus:
            require_memory(weights_bytes)
        else:
            _require(weights_bytes, gpus[index], f"GPU {index}")
        return {"device_map": device}
    if not gpus:
        require_memory(weights_bytes)
        return {"device_map": "mps" if "mps" in free else "cpu"}
    roomiest = max(gpus, key=lambda index: gpus[index])
    if device_map == "auto" and weights_bytes <= gpus[roomiest]:
        return {"device_map": {"": roomiest}}
    _require(weights_bytes, sum(gpus.values()), f"all {len(gpus)} GPUs together" if len(gpus) > 1 else "the GPU")
    return {"device_map": device_map, "max_memory": gpus}


def leave_layers_on_disk(empty: PreTrainedModel, folder: str) -> dict[str, Any]:
    """Return what has transformers' ``from_pretrained`` leave a model's layers on disk, and load what is around them.

    Args:
        empty: the model without weights.
        folder: takes weights that are not in the files as they are wanted.
    """
    import torch
    from torch import nn

    device: int | str = 0 if torch.cuda.is_available() else "cpu"
    places: dict[str, int | str] = {}

    def place(name: str, module: nn.Module) -> None:
        if isinstance(module, nn.ModuleList):
            places[name] = "disk"
        elif any(isinstance(part, nn.ModuleList) for part in module.modules()):
            for child, part in module.named_children():
                place(f"{name}.{child}" if name else child, part)
        else:
            places[name] = device

    place("", empty)
    return {"device_map": places, "offload_folder": folder}


def drop_layers(model: PreTrainedModel) -> None:
    """Let go of a model's layers, and keep what is around them."""
    from torch import nn

    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.ModuleList):
                setattr(module, name, nn.ModuleList())


def require_memory(needed_bytes: int) -> None:
    """Raise `TokurError` if the main memory hasn't that much left."""
    from accelerate.utils import get_max_memory

    free = get_max_memory()
    # A Mac's and an integrated GPU's memory is the main memory, and is listed in place of it.
    _require(needed_bytes, free["cpu"] if "cpu" in free else max(free.values()), "main memory")


def _require(needed_bytes: int, available_bytes: int, where: str) -> None:
    if needed_bytes > available_bytes:
        raise TokurError(
            f"loading the model needs {needed_bytes / 1e9:.1f} GB, but {where} has {available_bytes / 1e9:.1f} GB "
            "available; use a smaller model, a dtype of fewer bytes (--dtype bfloat16) or another place (--device-map)"
        )


def _device(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise _unknown(name) from error
    count = torch.cuda.device_count()
    if device.type == "cuda" and count == 0:
        raise UsageError(f"--device-map {name}: there is no CUDA device here; use cpu or auto")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise UsageError(f"--device-map {name}: the CUDA devices here are cuda:0 to cuda:{count - 1}")
    return device


def device_type(device_map: str) -> str:
    """Return the kind of device that a map leads to, ``cpu`` or ``cuda``, say."""
    import torch

    if device_map not in SPREADING:
        return _device(device_map).type
    return "cuda" if torch.cuda.is_available() else "cpu"


def multiplies_bfloat16_fast(device_type: str) -> bool:
    """Tell whether devices of a type (``cpu``, ``cuda``, …) have instructions for products in bfloat16 here."""
    import torch

    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device_type == "cpu" and not CPU_BFLOAT16_FLAGS.isdisjoint(_cpu_flags())


def _cpu_flags() -> frozenset[str]:
    """Read the CPU's feature names; none where the system doesn't list them (macOS, Windows)."""
    try:
        with CPU_INFO.open() as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()
