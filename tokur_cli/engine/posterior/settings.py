"""What a posterior is made of beside the weights: each setting with its default and what it may be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from tokur_cli.records.encoding import Checks
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


def is_text(value: Any) -> bool:
    """Return whether a value is text that says something."""
    return isinstance(value, str) and bool(value.strip())


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1."""
    return type(value) is int and value >= 1


def _is_strength(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _LARGEST


def _is_layers(value: Any) -> bool:
    try:
        return value is None or (isinstance(value, str) and layer_slice(value) is not None)
    except UsageError:
        return False


def setting(default: Any, what: str, check: Callable[[Any], bool]) -> Any:
    """Return a field of the settings: its default, and what it must be where ``posterior.json`` has it."""
    return field(default=default, metadata={"check": (what, check)})


@dataclass(frozen=True)
class PosteriorSettings:
    """What a posterior is made of beside the weights; ``posterior.json`` and ``tokur.run`` have each by its name.

    Args:
        rank: r′, of the noise.
        sigma: σ_q, its strength.
        targets: which projections, see ``find_projections``.
        layers: which layers, as a slice; None for all.
        seed: of the noise.
    """

    rank: int = setting(8, "an integer from 1", is_count)
    sigma: float = setting(0.1, "a number from 0 to 3.4e38", _is_strength)
    targets: str = setting(DEFAULT_TARGETS, "names of projections with commas between them", is_text)
    layers: str | None = setting(None, "a slice of layers such as 15:, or null", _is_layers)
    seed: int = setting(0, "an integer", lambda value: type(value) is int)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in SETTING_CHECKS}


PAPER = PosteriorSettings()
"""The paper's, which are the defaults."""
SETTING_CHECKS: Checks = {each.name: each.metadata["check"] for each in fields(PosteriorSettings)}


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
