"""What a posterior is made of beside the weights, and what a kept one says of itself; it imports no torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tokur_cli import __version__
from tokur_cli.records.encoding import read_json
from tokur_cli.records.errors import UsageError
from tokur_cli.records.record import DRAW_SETTINGS

DEFAULT_TARGETS = "q_proj,k_proj"
AUTO = "auto"
"""The strength that suits the model, in place of a number."""
MOST_KL = 0.03
"""How far draws of a strength that is chosen may be from the model: mean KL(p_0 ‖ p_m) of a token, in nats."""
MOST_DRAWS, MOST_SIGMA = 10_000, 3.4e38  # the largest float32, in which sigma is computed
DESCRIPTION, BASIS = "posterior.json", "basis.safetensors"


def layer_slice(layers: str) -> slice:
    """Return the slice that a text such as ``15:`` spells.

    Raises:
        UsageError: it spells none.
    """
    bounds = re.fullmatch(r"(-?\d{1,9})?:(-?\d{1,9})?", layers.strip())
    if bounds is None:
        raise UsageError(f'layers "{layers}" is not a slice; write FIRST:END, such as 15: or :4')
    return slice(*(None if bound is None else int(bound) for bound in bounds.groups()))


@dataclass(frozen=True)
class PosteriorSettings:
    """What a posterior is made of beside the weights; ``posterior.json`` and ``tokur.run`` have each by its name."""

    rank: int = 8  # r′, of the noise
    sigma: float = 0.1  # σ_q, its strength
    targets: str = DEFAULT_TARGETS  # which projections, see ``find_projections``
    layers: str | None = None  # which layers, as a slice; None for all
    seed: int = 0  # of the noise

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in SETTINGS}


PAPER = PosteriorSettings()
"""The paper's, which are the defaults."""
SETTINGS = tuple(each.name for each in fields(PosteriorSettings))


def settings_of_draws(posterior: PosteriorSettings | None, draws: int, sampling: str, estimator: str) -> dict[str, Any]:
    """Return the ``DRAW_SETTINGS`` by name; without a posterior all are None, but for no draws.

    Args:
        posterior: the settings of what is drawn from; None where nothing is.
        draws: M.
        sampling: how draws and decoding steps go together.
        estimator: how EU is computed of them.
    """
    values: dict[str, Any] = dict.fromkeys(DRAW_SETTINGS) | {"draws": 0}
    if posterior is not None:
        values |= posterior.settings | {"draws": draws, "sampling": sampling, "estimator": estimator}
    return values


@dataclass(frozen=True, kw_only=True)
class PosteriorDescription(PosteriorSettings):
    """What ``posterior.json`` says."""

    model: str  # name of the model, as the user typed it
    revision: str | None  # its hub commit; None for local files
    fingerprint: str  # of its weights, see ``weight_digest``
    draws: int  # M, the number of adapters
    calibration: dict[str, Any] | None  # how sigma was found by ``--calibrate``; None where it was given
    base: str | None = None  # where the model is an adapter, the model that this is put on; else None
    version: str = __version__  # of tokur
    format: int = 1  # of the folder


def read_description(folder: str) -> PosteriorDescription:
    """Read ``posterior.json``; raises what ``read_json`` does."""
    return read_json(str(Path(folder, DESCRIPTION)), PosteriorDescription, f"tokur perturb -o {folder}")


def refuse_existing(folder: str) -> None:
    """Refuse a folder for a posterior that holds something, before any work is done.

    Raises:
        UsageError: it does, or is no folder.
    """
    path = Path(folder)
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{folder}: is there already: move it elsewhere, or give another -o DIR")
