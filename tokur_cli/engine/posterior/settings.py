"""What a posterior is made of beside the weights: each setting with its default and what it may be."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from tokur_cli.records.errors import UsageError

DEFAULT_TARGETS = "q_proj,k_proj"
AUTO = "auto"
"""The strength that suits the model, in place of a number."""
MOST_KL = 0.03
"""How far draws of a strength that is chosen may be from the model: mean KL(p_0 ‖ p_m) of a token, in nats."""
_LARGEST = 3.4e38  # of the float32 that sigma is computed in


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
    """What a posterior is made of beside the weights; ``posterior.json`` and ``tokur.run`` have each by its name.

    Args:
        rank: r′, of the noise.
        sigma: σ_q, its strength.
        targets: which projections, see ``find_projections``.
        layers: which layers, as a slice; None for all.
        seed: of the noise.

    Raises:
        ValueError: no such strength.
        UsageError: the layers are no slice.
    """

    rank: int = 8
    sigma: float = 0.1
    targets: str = DEFAULT_TARGETS
    layers: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.sigma <= _LARGEST:
            raise ValueError(f'"sigma" is {self.sigma}, not a number from 0 to {_LARGEST:g}')
        if self.layers is not None:
            layer_slice(self.layers)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in SETTINGS}


PAPER = PosteriorSettings()
"""The paper's, which are the defaults."""
SETTINGS = tuple(each.name for each in fields(PosteriorSettings))


def settings_of_draws(posterior: PosteriorSettings | None, draws: int, sampling: str, estimator: str) -> dict[str, Any]:
    """Return what numbers depend on that have to do with draws, as ``tokur.run`` has it.

    Args:
        posterior: the settings of what is drawn from; None where nothing is: then all are None, but for no draws.
        draws: M.
        sampling: how draws and decoding steps go together.
        estimator: how EU is computed of them.
    """
    of_use = {"draws": draws, "sampling": sampling, "estimator": estimator}
    of_posterior = (posterior or PAPER).settings
    settings = dict.fromkeys(("rank", "sigma")) | of_use | of_posterior  # in the order that records have had
    return settings if posterior else dict.fromkeys(settings) | {"draws": 0}


DRAW_SETTINGS = tuple(settings_of_draws(None, 0, "", ""))
"""Names of what numbers depend on that have to do with draws."""
