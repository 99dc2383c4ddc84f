"""How the libraries run on this machine: quietly, in which dtype, and where a model's weights fit."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.request import SPREADING, ModelRequest
from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHARE_FOR_WEIGHTS = 0.9  # of a GPU's free memory; the rest is for activations
OPTIMISATION = "scipy.optimize"


def import_transformers() -> None:
    """Import transformers, without the libraries' advice and bars; ``TOKUR_DEBUG=1`` leaves everything on.

    SciPy's optimisation comes only when it is called for, which takes 0.3 s off a start: transformers' losses, which
    its models import, take one function from it, for object detectors.

    oneDNN and PyTorch keep 64 kernels each, compiled for a shape, in place of 1,024 of half a megabyte and more.
    """
    for cache in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(cache, "64")
    quiet = os.environ.get("TOKUR_DEBUG") != "1"
    for library in ("bitsandbytes", "torchao", "torch.utils._pytree", "accelerate") if quiet else ():
        logging.getLogger(library).setLevel(logging.ERROR)  # some warn when imported
    import accelerate  # noqa: F401  (before: whatever it imports sees SciPy as it is)
    import huggingface_hub.utils
    import transformers.utils.logging

    if quiet:
        hub: Any = huggingface_hub.utils
        own: Any = transformers.utils.logging
        hub.logging.set_verbosity_error()
        own.set_verbosity_error()
        own.disable_progress_bar()  # the hub's bars too, which stay where someone watches
        if sys.stderr.isatty():
            hub.enable_progress_bars()
    if OPTIMISATION in sys.modules:
        return
    stand_in: Any = ModuleType(OPTIMISATION)
    stand_in.linear_sum_assignment = lambda *of, **by: import_module(OPTIMISATION).linear_sum_assignment(*of, **by)
    sys.modules[OPTIMISATION] = stand_in
    with suppress(ImportError):  # another function, another place: the models import it as it is
        import transformers.loss.loss_utils
    del sys.modules[OPTIMISATION]


def resolve_dtype(dtype: str, device_map: str) -> str:
    """Return the dtype to load in; ``auto`` is bfloat16 where the hardware multiplies it fast, else float32."""
    import torch

    if dtype != "auto":
        return dtype
    default = "cuda" if torch.cuda.is_available() else "cpu"
    device_type = default if device_map in SPREADING else torch.device(device_map).type
    return "bfloat16" if multiplies_bfloat16_fast(device_type) else "float32"


def this_machine() -> dict[str, int]:
    """Return how many cores and GPUs this process may use, by the names that Ray has for them."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"CPU": cores, "GPU": torch.cuda.device_count()}


def place_weights(request: ModelRequest, weights_bytes: int) -> dict[str, Any]:
    """Return where the weights go, as ``from_pretrained`` takes it.

    ``auto`` fills the GPU with the most free memory first, and takes the CPU where there is no GPU. Without an offload
    folder, weights are kept where they are computed with. With it, those that don't fit are kept in main memory and on
    disk, as accelerate divides them, and fetched when they are needed.

    Args:
        request: what is asked for.
        weights_bytes: size of all weights in the dtype they are loaded in; 0 where that is not known.

    Raises:
        UsageError: a single device with an offload folder.
        TokurError: too little main memory.
    """
    from accelerate.utils import get_max_memory

    device_map, free = request.device_map, get_max_memory()
    room = {place: int(memory * SHARE_FOR_WEIGHTS) for place, memory in free.items()}
    if request.offload_dir is not None:
        if device_map not in SPREADING:
            raise UsageError(f"--set offload_dir divides the weights, and --device-map {device_map} is one place")
        if request.weights_memory is not None:
            room = {place: min(memory, int(request.weights_memory * 2**30)) for place, memory in room.items()}
        return {"device_map": device_map, "max_memory": room, "offload_folder": request.offload_dir}
    gpus = {place: memory for place, memory in room.items() if isinstance(place, int)}
    if device_map in SPREADING and gpus:
        roomiest = max(gpus, key=lambda index: gpus[index])
        if device_map == "auto" and (len(gpus) == 1 or weights_bytes <= gpus[roomiest]):
            return {"device_map": {"": roomiest}}
        return {"device_map": device_map, "max_memory": gpus}
    device = device_map if device_map not in SPREADING else "mps" if "mps" in free else "cpu"
    main = free.get("cpu") or max(free.values())  # a Mac's and an integrated GPU's is listed in place of it
    if device in ("cpu", "mps") and weights_bytes > main:
        raise TokurError(
            f"the weights take {weights_bytes / 1e9:.1f} GB, and main memory has {main / 1e9:.1f} GB: use a smaller "
            "model, --dtype bfloat16 or another --device-map"
        )
    return {"device_map": device}


def drop_layers(model: PreTrainedModel) -> None:
    """Let go of a model's layers, and keep what is around them."""
    from torch import nn

    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.ModuleList):
                setattr(module, name, nn.ModuleList())


def multiplies_bfloat16_fast(device_type: str) -> bool:
    """Tell whether devices of a type (``cpu``, ``cuda``, …) have instructions for products in bfloat16 here."""
    import torch

    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device_type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
