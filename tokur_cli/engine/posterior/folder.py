"""A posterior as a folder that can be kept: what it is, its basis, and its draws as PEFT LoRA adapters.

- ``posterior.json``: what it is, of which weights.
- ``basis.safetensors``: U′ of every perturbed matrix, float32, (out, r′).
- ``draw-0 … draw-(M−1)``: U′εᵀ as adapters that stock PEFT and stock vLLM load.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import align_module_device
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.loading.cache import open_to_readers
from tokur_cli.engine.loading.quantised import is_plain, plain_parts, some_columns, weight_of
from tokur_cli.engine.loading.reordered import parameters_of
from tokur_cli.engine.posterior.adapters import save_adapter
from tokur_cli.engine.posterior.description import (
    BASIS,
    DESCRIPTION,
    PosteriorDescription,
    read_description,
    refuse_existing,
)
from tokur_cli.engine.posterior.posterior import PerturbedMatrix, Posterior
from tokur_cli.engine.posterior.projections import Projection, find_projections
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import naming, replacing

_SAMPLED = 4096  # entries that stand for a weight which is not perturbed


def keep_posterior(
    folder: str,
    model: PreTrainedModel,
    posterior: Posterior,
    *,
    draws: int,
    model_name: str,
    revision: str | None,
    base: str | None = None,
    base_revision: str | None = None,
    calibration: dict[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Write a posterior's folder, whole or not at all.

    Everything is written beside the folder under another name and moved into place at the end.

    Args:
        folder: its name.
        model: the model that the posterior is of.
        posterior: the posterior.
        draws: M, how many adapters.
        model_name: see ``PosteriorDescription``.
        revision: likewise.
        base: likewise.
        base_revision: its hub commit.
        calibration: likewise.
        force: replace a posterior that is there.

    Raises:
        UsageError: the folder exists (with ``force``: and holds no posterior).
        TokurError: it cannot be written.
    """
    description = PosteriorDescription(
        model_name,
        revision,
        weight_fingerprint(model, posterior.matrices),
        PosteriorSettings(**posterior.settings),
        draws,
        calibration,
        base=base,
    )
    bare = (model_name, revision) if base is None else (base, base_revision)
    refuse_existing(folder, force=force)
    with naming(folder), replacing(Path(os.path.realpath(folder))) as place:
        place.mkdir()
        basis = save({matrix.name: matrix.basis.contiguous() for matrix in posterior.matrices})
        (place / BASIS).write_bytes(basis)
        description = replace(description, basis_sha256=hashlib.sha256(basis).hexdigest())
        for member in range(draws):
            save_adapter(place / f"draw-{member}", model, posterior, member, *bare)
        (place / DESCRIPTION).write_text(description.as_json(), encoding="utf-8")
        open_to_readers(place, place)
        refuse_existing(folder, force=force)  # again: something may have been put there meanwhile


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
    settings = description.settings
    mismatch = TokurError(
        f"{folder}: is of {description.model}, and the weights of {model_name} are not the ones that it was made of: "
        "score with that model, or make a posterior of this one with tokur perturb"
    )
    try:
        projections = find_projections(model, settings.targets, settings.layers)
    except TokurError:
        raise mismatch from None
    if weight_fingerprint(model, projections) != description.fingerprint:
        raise mismatch
    bases = _read_basis(Path(folder, BASIS), projections, description)
    matrices = tuple(
        PerturbedMatrix(**vars(projection), basis=bases[projection.name], inputs=projection.size[1])
        for projection in projections
    )
    return Posterior(**settings.settings, matrices=matrices)


def _read_basis(path: Path, projections: Sequence[Projection], description: PosteriorDescription) -> dict[str, Tensor]:
    """Read U′ of every projection, float32, (out, r′).

    Raises:
        TokurError: the file cannot be read, is not the one that was written, or does not hold them.
    """

    def unlike(what: str) -> TokurError:
        return TokurError(f"{path}: {what}; write the posterior again with tokur perturb")

    try:
        data = path.read_bytes()
        bases: dict[str, Tensor] = load(data)
    except FileNotFoundError:
        raise unlike("is missing") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise unlike(f"cannot be read ({error})") from None
    if description.basis_sha256 not in (None, digest := hashlib.sha256(data).hexdigest()):
        raise unlike(f"has the SHA-256 {digest}, and {DESCRIPTION} says {description.basis_sha256}")
    for projection in projections:
        wanted = projection.size[0], description.settings.rank
        basis = bases.get(projection.name)
        if basis is None:
            raise unlike(f"lacks {projection.name}")
        if not basis.is_floating_point() or tuple(basis.shape) != wanted:
            found = f"{str(basis.dtype).removeprefix('torch.')} {tuple(basis.shape)}"
            raise unlike(f"{projection.name} is {found}, not float32 {wanted}")
        if not basis.isfinite().all():
            raise unlike(f"{projection.name} holds numbers that are not finite")
    return {name: basis.float() for name, basis in bases.items()}


def weight_fingerprint(model: PreTrainedModel, projections: Iterable[Projection]) -> str:
    """Return a SHA-256 that tells a model's weights from others.

    Every perturbed weight counts whole, every other parameter with its name, shape and up to 4,096 of its entries at
    even distances, which tells a fine-tuned model from its origin without reading all of it. Of a perturbed weight that
    is quantised, columns count at such distances that they tell all its scales. Floating-point numbers are rounded to
    bfloat16, so that a model loaded in float32 and in bfloat16 has one fingerprint.
    """
    digest = hashlib.sha256()
    projections = list(projections)
    perturbed = {id(projection.module) for projection in projections}
    for projection in projections:
        if not is_plain(projection.module):
            columns = weight_of(projection.name, projection.module, projection.dtype, some_columns(projection.module))
            digest.update(columns.to(torch.bfloat16).contiguous().cpu().view(torch.uint8).numpy().data)
    for module_name, module in model.named_modules():
        with align_module_device(module):
            for name, whole in parameters_of(module):
                parameter = next(plain_parts(whole))
                values = parameter.detach().flatten()
                if id(module) not in perturbed:
                    values = values[:: max(1, values.numel() // _SAMPLED)]
                if values.is_floating_point():
                    values = values.to(torch.bfloat16)
                digest.update(f"{module_name}.{name} {tuple(parameter.shape)}\n".encode())
                digest.update(values.contiguous().cpu().view(torch.uint8).numpy().data)
    return digest.hexdigest()
