"""What a shell completes the values of options with; those of a ``Literal`` it knows by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Completion = Callable[[str], list[str]]
Names = Callable[[], Iterable[str]]


def one_of(names: Iterable[str] | Names) -> Completion:
    """Return what completes a name.

    Args:
        names: those that there are, or a function that is called for them when a shell asks, and may import what other
            starts do not need. (Not a lambda within an annotation, which would not find its module's names.)
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in (names() if callable(names) else names) if name.startswith(incomplete)]

    return complete


def several_of(names: Names, *others: str) -> Completion:
    """Return what completes the last of several names with commas between them by one that is not there yet."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = before.split(",")
        return [f"{before}{comma}{name}" for name in one_of([*names(), *others])(last) if name not in there]

    return complete


def score_names() -> Iterable[str]:
    """Return the names of all scores."""
    from tokur_cli.scores.catalogue import CATALOGUE

    return CATALOGUE


def quantity_names() -> Iterable[str]:
    """Return the names of the quantities of tokens."""
    from tokur_cli.scores.quantities import QUANTITIES

    return QUANTITIES


def model_names() -> Iterable[str]:
    """Return the embedded model, and those in the hub's cache."""
    from pathlib import Path

    from huggingface_hub.constants import HF_HUB_CACHE

    from tokur_cli.engine.loading.default_model import DEFAULT_MODEL

    folders = sorted(folder.name for folder in Path(HF_HUB_CACHE).glob("models--*"))
    return [DEFAULT_MODEL, *(name.removeprefix("models--").replace("--", "/") for name in folders)]


def palette_names() -> Iterable[str]:
    """Return the names of the colours of a heat map."""
    from typing import get_args

    from tokur_cli.views.heatmap.colours import Palette

    return get_args(Palette)
