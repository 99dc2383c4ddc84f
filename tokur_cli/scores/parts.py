"""Parts of responses: the tokens whose text holds a match of an expression, which have scores of their own.

The score ``eu`` of the tokens called ``digits`` is ``eu@digits``. What follows the score's name, ``@digits``, is the
part's key: ``tokur.run`` and calibrations have the expression under it, the features of a response which tokens match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from tokur_cli.records.errors import UsageError
from tokur_cli.scores.steps import Span, regular_expression

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MARK = "@"

Parts = Mapping[str, str]
"""Regular expressions by the parts' keys: ``{"@digits": "\\\\d"}``."""

NO_PARTS: Parts = MappingProxyType({})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def part_of(name: str) -> str:
    """Return the key of the part that a score is of, by the score's name; empty for whole responses."""
    return name[len(whole_of(name)) :]


def whole_of(name: str) -> str:
    """Return what a score is called where it is of whole responses."""
    return name.partition(MARK)[0]


def is_part(key: str) -> bool:
    """Return whether a part may have this key."""
    return key.startswith(MARK) and _NAME.fullmatch(key, 1) is not None


def parse_parts(given: Iterable[str]) -> dict[str, str]:
    r"""Return the parts that texts such as ``digits=\d`` spell.

    Raises:
        UsageError: one has no name, another's name, or what is no regular expression.
    """
    parts: dict[str, str] = {}
    for text in given:
        name, equals, pattern = text.partition("=")
        key = MARK + name
        if not equals or not is_part(key):
            raise UsageError(
                f"--tokens {text}: give the tokens a name of letters, digits, _ and -, which their scores will have: "
                f"--tokens 'digits=\\d' makes eu{MARK}digits"
            )
        if key in parts:
            raise UsageError(f"--tokens names {name} twice: give each expression a name of its own")
        regular_expression(pattern, f"--tokens {name}=")
        parts[key] = pattern
    return parts


def part_masks(parts: Parts, response: str, offsets: Sequence[Span]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which tokens belong to each part: those whose text holds a match.

    Args:
        parts: the expressions.
        response: the text.
        offsets: T spans of it, one a token.

    Returns:
        By the parts' keys (T,), true for the tokens that belong to it.
    """
    import numpy as np  # which the options, that read expressions, do without

    masks = {}
    for key, pattern in parts.items():
        search = re.compile(pattern).search
        masks[key] = np.array([search(response[start:end]) is not None for start, end in offsets], dtype=bool)
    return masks


def check_known(names: Iterable[str], parts: Parts, option: str) -> None:
    """Refuse names of scores of parts that are not known.

    Args:
        names: of scores.
        parts: what ``--tokens`` gave.
        option: where the scores were named.

    Raises:
        UsageError: there is such a name.
    """
    for name in names:
        if (key := part_of(name)) and key not in parts:
            raise UsageError(f"{option} {name}: which tokens are these? Say so with --tokens '{key[1:]}=REGEX'")


def check_used(names: Iterable[str], parts: Parts, option: str) -> None:
    """Refuse parts of which no score is named.

    Args:
        names: of scores.
        parts: what ``--tokens`` gave.
        option: where the scores are named.

    Raises:
        UsageError: there is such a part.
    """
    used = set(map(part_of, names))
    for key in parts:
        if key not in used:
            raise UsageError(f"--tokens {key[1:]}: {option} names no score of these tokens, such as eu{key}")
