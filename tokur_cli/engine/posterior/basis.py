"""U′, the first left singular vectors of weights; the file that keeps them, and a digest of the weights."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import align_module_device
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from transformers import PreTrainedModel

from tokur_cli.engine.model.linear import ReorderedLinear, is_plain, plain_tensors, weight_of
from tokur_cli.engine.posterior.projections import Projection
from tokur_cli.records.errors import TokurError

_SMALL = 1024  # sides of a weight that LAPACK decomposes within a second
_SAMPLED = 4096  # entries that stand for a weight which is not perturbed
_SCALE_INPUTS = 64  # blocks of a quantised weight that share a scale are not smaller in what is common
_CHECKSUM = "blake2b"


def left_singular_vectors(weight: Tensor, rank: int) -> Tensor:
    """Return U′, the first ``rank`` left singular vectors of W (out × in), float32, (out, rank).

    A singular vector is defined up to its sign; here its entry of largest magnitude is positive. It is computed in
    float64: where singular values are close to each other, float32 turns their vectors by 1e-4 from one number of
    threads to another. So the same weights give the same basis on every machine.
    """
    from scipy.sparse.linalg import ArpackError, svds

    exact = weight.cpu().double()
    left = None
    if max(weight.shape) > _SMALL and rank < min(weight.shape):
        with suppress(ArpackError):  # values that nearly coincide, or none but 0
            start = np.random.default_rng(0).standard_normal(min(weight.shape))
            vectors, values, _ = svds(exact.numpy(), rank, v0=start, return_singular_vectors="u")
            left = torch.from_numpy(vectors[:, np.argsort(-values)])
    if left is None:
        left = torch.linalg.svd(exact, full_matrices=False).U[:, :rank]
    largest = left.gather(0, left.abs().argmax(dim=0, keepdim=True))
    return (left * largest.sign()).float().contiguous()


def write_basis(path: Path, bases: Mapping[str, Tensor]) -> None:
    """Write U′ of each matrix by its name, with a checksum."""
    path.write_bytes(save(dict(bases), {_CHECKSUM: _checksum(bases)}))


def read_basis(path: Path) -> dict[str, Tensor]:
    """Return U′ of each matrix by its name, float32, (out, r′).

    Raises:
        TokurError: it is missing or damaged.
    """
    try:
        with safe_open(path, "pt") as file:
            checksum = (file.metadata() or {}).get(_CHECKSUM)
            bases: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:  # missing, cut short, a header that is none, or not for this user
        raise TokurError(f"{path}: cannot be read ({error})") from None
    if _checksum(bases) != checksum:
        raise TokurError(f"{path}: is damaged (its checksum does not fit)")
    return bases


def _checksum(bases: Mapping[str, Tensor]) -> str:
    """Return the BLAKE2b over the names, shapes, dtypes and bytes, in the order of the names."""
    digest = hashlib.blake2b(digest_size=16)
    for name, basis in sorted(bases.items()):
        digest.update(f"{name} {tuple(basis.shape)} {basis.dtype}\n".encode())
        digest.update(basis.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def weight_digest(model: PreTrainedModel, projections: Iterable[Projection], *, rounded: bool = True) -> str:
    """Return a SHA-256 that tells a model's weights from others.

    Every perturbed weight counts whole, every other parameter with its name, shape and up to 8,191 of its entries at
    even distances, which tells a fine-tuned model from its origin without reading all of it. Of a perturbed weight that
    is quantised, what is kept counts, and columns at such distances that they tell all its scales.

    Args:
        model: the model.
        projections: what is perturbed.
        rounded: to bfloat16, so that a model has one digest whether it was loaded in float32 or in bfloat16.
    """
    digest = hashlib.sha256()

    def add(label: str, shape: tuple[int, ...], values: Tensor) -> None:
        if rounded and values.is_floating_point():
            values = values.to(torch.bfloat16)
        digest.update(f"{label} {shape} {values.dtype}\n".encode())
        digest.update(values.detach().contiguous().flatten().cpu().view(torch.uint8).numpy().data)

    perturbed = set()
    for projection in projections:
        name, module = projection.name, projection.module
        perturbed.add(id(module))
        digest.update(f"{name} {projection.size}\n".encode())
        if not is_plain(module):
            some = range(0, projection.size[1], _SCALE_INPUTS)
            columns = weight_of(projection.module_name, module, projection.dtype, some)
            add(name, tuple(columns.shape), columns)
            for kept in itertools.chain(module.parameters(), module.buffers()):
                for tensor in plain_tensors(kept):
                    add(name, tuple(tensor.shape), tensor)
    for module_name, module in model.named_modules():
        with align_module_device(module):
            reordered = [("weight", module.weight)] if isinstance(module, ReorderedLinear) else []
            for name, whole in [*reordered, *module.named_parameters(recurse=False)]:
                parameter = next(plain_tensors(whole))
                values = parameter.flatten()
                if id(module) not in perturbed:
                    values = values[:: max(1, values.numel() // _SAMPLED)]
                add(f"{module_name}.{name}", tuple(parameter.shape), values)
    return digest.hexdigest()
