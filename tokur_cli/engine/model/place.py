"""What this machine computes fast, and where a model's weights fit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.request import SPREADING, ModelRequest
from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

DTYPES = ("bfloat16", "float32", "float16")
SHARE_FOR_WEIGHTS = 0.9  # of a GPU's free memory; the rest is for activations
ALLOCATOR_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the first one is read from PyTorch 2.9 on
CPU_INFO = Path("/proc/cpuinfo")
CPU_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})


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


def prepare_memory(device_map: str) -> None:
    """Have the libraries keep little for shapes that no later batch has; before anything is computed.

    oneDNN keeps the compiled kernels of 1,024 shapes, in each of two caches (PyTorch's and its own), half a megabyte
    and more each. Segments of a GPU's memory of a fixed size would be left with gaps: they grow, unless the user has
    settings. PyTorch reads its environment when it is imported, and other engines' processes would inherit that, so the
    allocator of this process is told; some drivers (of virtual GPUs, say) cannot.
    """
    import torch

    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
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


def place_weights(request: ModelRequest, weights_bytes: int) -> dict[str, Any]:
    """Choose where the weights go: the ``device_map`` and ``max_memory`` for transformers' ``from_pretrained``.

    ``auto`` fills the GPU with the most free memory first, and takes the CPU where there is no GPU. Without an offload
    folder, weights are kept where they are computed with. With it, those that don't fit are kept in main memory and on
    disk, as accelerate divides them, and fetched when they are needed.

    Args:
        request: what is asked for.
        weights_bytes: size of all weights in the dtype they are loaded in; 0 where that is not known.

    Raises:
        UsageError: no such device, or a single one with an offload folder.
        TokurError: too little main memory.
    """
    from accelerate.utils import get_max_memory

    device_map, offload = request.device_map, request.offload
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
    if device_map in SPREADING and gpus:
        roomiest_first = dict(sorted(gpus.items(), key=lambda gpu: -gpu[1]))
        if device_map == "auto" and (len(gpus) == 1 or weights_bytes <= max(gpus.values())):
            return {"device_map": {"": next(iter(roomiest_first))}}
        return {"device_map": device_map, "max_memory": gpus}
    device = _device(device_map) if device_map not in SPREADING else "mps" if "mps" in free else "cpu"
    # A Mac's and an integrated GPU's memory is the main memory, and is listed in place of it
    main = free["cpu"] if "cpu" in free else max(free.values())
    if str(device) in ("cpu", "mps") and weights_bytes > main:
        raise TokurError(
            f"loading the model needs {weights_bytes / 1e9:.1f} GB, but main memory has {main / 1e9:.1f} GB available; "
            "use a smaller model, a dtype of fewer bytes (--dtype bfloat16) or another place (--device-map)"
        )
    return {"device_map": device}


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


def _device(name: str) -> torch.device:
    """Return a torch device that is there."""
    import torch

    device = torch.device(name)
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
    if not CPU_INFO.exists():
        return frozenset()
    lines = (line.partition(":") for line in CPU_INFO.read_text().splitlines())
    return frozenset(next((value.split() for name, _, value in lines if name.strip() == "flags"), ()))
