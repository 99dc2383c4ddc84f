"""A draw as a LoRA adapter in PEFT's format: B = U′, A = εᵀ, scaling 1."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tokur_cli.engine.model.find import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from tokur_cli.engine.model.quantised import size
from tokur_cli.engine.posterior.posterior import PerturbedMatrix, Posterior


def save_adapter(
    folder: Path, model: PreTrainedModel, posterior: Posterior, draw: int, model_name: str, revision: str | None
) -> None:
    """Write one draw as ``adapter_config.json`` and ``adapter_model.safetensors``, float32.

    The parts of a fused weight share one adapter, whose rank is r′ times their number: their A stand one above the
    other, and each part's B fills its own rows.

    Args:
        folder: is made.
        model: the base model.
        posterior: what is drawn from.
        draw: which one, from 0.
        model_name: of the base model.
        revision: its hub commit; None for local files.
    """
    modules: dict[str, list[PerturbedMatrix]] = {}
    for matrix in posterior.matrices:
        modules.setdefault(matrix.module_name, []).append(matrix)
    tensors: dict[str, Tensor] = {}
    for name, matrices in modules.items():
        down, up = _factors(posterior, matrices, draw)
        tensors[f"base_model.model.{name}.lora_A.weight"] = down
        tensors[f"base_model.model.{name}.lora_B.weight"] = up
    folder.mkdir()
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    ranks = {name: len(matrices) * posterior.rank for name, matrices in modules.items()}
    most = max(ranks.values())
    others = {name: rank for name, rank in ranks.items() if rank != most}
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model_name,
        "revision": revision,
        "inference_mode": True,
        "r": most,
        "lora_alpha": most,
        "rank_pattern": others,
        "alpha_pattern": others,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(isinstance(matrices[0].module, Conv1D) for matrices in modules.values()),
        "target_modules": _target_modules(model, modules.keys()),
    }
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _factors(posterior: Posterior, matrices: list[PerturbedMatrix], draw: int) -> tuple[Tensor, Tensor]:
    """Return A (n · r′, in) and B (out, n · r′) of one module with n perturbed matrices."""
    down = torch.cat([posterior.weight_noise(matrix, draw).T for matrix in matrices]).contiguous()
    up = torch.zeros(size(matrices[0].module)[0], down.shape[0])
    for index, matrix in enumerate(matrices):
        rows = slice(None) if matrix.rows is None else matrix.rows
        up[rows, index * posterior.rank : (index + 1) * posterior.rank] = matrix.basis
    return down, up


def _target_modules(model: PreTrainedModel, names: Collection[str]) -> list[str]:
    """Return the ends of the names where these match no other module of the model, as vLLM wants; else the names."""
    ends = {name.rpartition(".")[2] for name in names}
    meant = {name for name, _ in model.named_modules() if name.rpartition(".")[2] in ends}
    return sorted(ends if meant == set(names) else names)
