"""A posterior as a folder that can be kept: what it is, its basis, and its draws as PEFT LoRA adapters.

- ``posterior.json``: what it is, of which weights.
- ``basis.safetensors``: U′ of every perturbed matrix, float32, (out, r′).
- ``draw-0 … draw-(M−1)``: U′εᵀ as adapters that stock PEFT and stock vLLM load.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tokur_cli.engine.model.find import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from tokur_cli.engine.model.linear import size
from tokur_cli.engine.posterior.basis import read_basis, weight_digest, write_basis
from tokur_cli.engine.posterior.posterior import PerturbedMatrix, Posterior, with_bases
from tokur_cli.engine.posterior.projections import find_projections
from tokur_cli.engine.posterior.settings import BASIS, DESCRIPTION, PosteriorDescription, read_description
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import naming, replacing

if TYPE_CHECKING:
    from tokur_cli.engine.model.load import LanguageModel


def keep_posterior(
    folder: str, model: LanguageModel, posterior: Posterior, draws: int, calibration: dict[str, Any] | None = None
) -> None:
    """Write a posterior's folder, whole or not at all.

    Args:
        folder: its name.
        model: the model that the posterior is of.
        posterior: the posterior.
        draws: M, how many adapters.
        calibration: how sigma was found; None where it was given.

    Raises:
        TokurError: it cannot be written, or holds something.
    """
    description = PosteriorDescription(
        **posterior.settings,
        model=model.name,
        revision=model.identity["revision"],
        fingerprint=weight_digest(model.model, posterior.matrices),
        draws=draws,
        calibration=calibration,
        base=model.identity.get("base"),
    )
    with naming(folder), replacing(Path(os.path.realpath(folder))) as place:
        place.mkdir()
        write_basis(place / BASIS, {matrix.name: matrix.basis for matrix in posterior.matrices})
        for draw in range(draws):
            save_adapter(place / f"draw-{draw}", model, posterior, draw)
        text = json.dumps(vars(description), indent=2, ensure_ascii=False) + "\n"
        (place / DESCRIPTION).write_text(text, encoding="utf-8")


def load_posterior(folder: str, model: PreTrainedModel, model_name: str) -> Posterior:
    """Read a posterior for the model that it was made of.

    Args:
        folder: its name.
        model: the model with its mean weights.
        model_name: for messages.

    Raises:
        TokurError: it cannot be read, or is of another model or of other weights.
    """
    description = read_description(folder)
    mismatch = TokurError(
        f"{folder}: is of {description.model}, and the weights of {model_name} are not the ones that it was made of: "
        "score with that model, or make a posterior of this one with tokur perturb"
    )
    try:
        projections = find_projections(model, description.targets, description.layers)
    except TokurError:
        raise mismatch from None
    if weight_digest(model, projections) != description.fingerprint:
        raise mismatch
    return with_bases(description, projections, read_basis(Path(folder, BASIS)))


def save_adapter(folder: Path, model: LanguageModel, posterior: Posterior, draw: int) -> None:
    """Write one draw as a LoRA adapter in PEFT's format, float32: B = U′, A = εᵀ, scaling 1.

    The parts of a fused weight share one adapter, whose rank is r′ times their number: their A stand one above the
    other, and each part's B fills its own rows.

    Args:
        folder: is made.
        model: the base model.
        posterior: what is drawn from.
        draw: which one, from 0.
    """
    modules: dict[str, list[PerturbedMatrix]] = {}
    for matrix in posterior.matrices:
        modules.setdefault(matrix.module_name, []).append(matrix)
    tensors: dict[str, Tensor] = {}
    for name, parts in modules.items():
        down = torch.cat([posterior.weight_noise(part, draw).T for part in parts]).contiguous()  # A (n · r′, in)
        up = torch.zeros(size(parts[0].module)[0], len(down))  # B (out, n · r′)
        for part, columns in zip(parts, up.split(posterior.rank, dim=1), strict=True):
            columns[slice(None) if part.rows is None else part.rows] = part.basis
        tensors[f"base_model.model.{name}.lora_A.weight"] = down
        tensors[f"base_model.model.{name}.lora_B.weight"] = up
    folder.mkdir()
    (folder / ADAPTER_WEIGHTS).write_bytes(save(tensors, {"format": "pt"}))
    ranks = {name: len(parts) * posterior.rank for name, parts in modules.items()}
    most = max(ranks.values())
    others = {name: rank for name, rank in ranks.items() if rank != most}
    # The ends of the names where these match no other module of the model, as vLLM wants
    ends = {name.rpartition(".")[2] for name in modules}
    meant = {name for name, _ in model.model.named_modules() if name.rpartition(".")[2] in ends}
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": model.source.name,
        "revision": model.source.revision,
        "inference_mode": True,
        "r": most,
        "lora_alpha": most,
        "rank_pattern": others,
        "alpha_pattern": others,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(isinstance(parts[0].module, Conv1D) for parts in modules.values()),
        "target_modules": sorted(ends if meant == set(modules) else modules),
    }
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
