"""U′, the first left singular vectors of a weight, which the posterior is low-rank along."""

from __future__ import annotations

import torch
from torch import Tensor

from tokur_cli.engine.precision import on_float64_device

_SMALL = 1024  # sides of a weight that LAPACK decomposes within a second
_BEYOND_RANK = 8  # more columns in a block than vectors are wanted: the gap to the next singular value is wider then
_FIRST_CHECK, _GROWTH = 16, 1.4  # blocks after which the vectors are first looked at, and then again
_RESIDUAL = 1e-13  # of WWᵀu − λu, relative to the largest λ: what rounding leaves


def left_singular_vectors(weight: Tensor, rank: int) -> Tensor:
    """Return U′, the first ``rank`` left singular vectors of W (out × in), float32, (out, rank).

    A singular vector is defined up to its sign; here its entry of largest magnitude is positive. It is computed in
    float64: where singular values are close to each other, float32 turns their vectors by 1e-4 from one number of
    threads to another. So the same weights give the same basis on every machine.
    """
    weight = on_float64_device(weight).double()
    left = _by_krylov(weight, rank) if max(weight.shape) > _SMALL else None
    if left is None:
        left = torch.linalg.svd(weight, full_matrices=False).U[:, :rank]
    largest = left.gather(0, left.abs().argmax(dim=0, keepdim=True))
    return (left * largest.sign()).float().contiguous()


def _by_krylov(weight: Tensor, rank: int) -> Tensor | None:
    """Return the vectors (out, rank), or None where they are not exact before half of all would be no more work.

    Block Lanczos on WWᵀ with full reorthogonalisation (Golub and Underwood 1977; Musco and Musco 2015): the vectors are
    sought in the span of X, WWᵀX, (WWᵀ)²X, … for a fixed random X. A matrix of 4096 × 4096 takes some 40 products with
    16 columns in place of a whole decomposition.
    """
    rows, columns = weight.shape
    block = rank + _BEYOND_RANK
    most = min(rows, columns) // 2 // block * block
    basis, images = weight.new_empty(most, rows), weight.new_empty(most, columns)  # Qᵀ, and QᵀW
    products = weight.new_zeros(most, most)  # QᵀWWᵀQ, its upper triangle
    start = torch.randn(rows, block, dtype=weight.dtype, generator=torch.Generator().manual_seed(0))
    newest = torch.linalg.qr(start.to(weight.device)).Q
    check = _FIRST_CHECK * block
    for begin in range(0, most, block):
        if begin:
            newest = weight @ images[begin - block : begin].T
            for _ in range(2):  # once leaves what rounding brings in
                newest = torch.linalg.qr(newest - basis[:begin].T @ (basis[:begin] @ newest)).Q
        done = begin + block
        basis[begin:done] = newest.T
        images[begin:done] = newest.T @ weight
        products[:done, begin:done] = images[:done] @ images[begin:done].T
        if done >= check or done == most:
            values, vectors = torch.linalg.eigh(products[:done, :done], UPLO="U")
            values, vectors = values[-rank:].flip(0), vectors[:, -rank:].flip(1)
            left: Tensor = basis[:done].T @ vectors
            residual = weight @ (images[:done].T @ vectors) - left * values
            if residual.norm(dim=0).max() <= _RESIDUAL * values[0]:
                return left
            check = int(_GROWTH * done)
    return None
