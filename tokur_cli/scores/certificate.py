"""A certificate: below which confidence an answer is withheld, so that few of those that are given are incorrect.

``tokur evaluate --certify`` finds it, ``tokur select --certificate`` goes by it. That of a question whose confidence is
the threshold itself is given or not by the question's tie-break, see ``metrics.certification``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from tokur_cli import __version__
from tokur_cli.records.encoding import read_json
from tokur_cli.records.record import differences
from tokur_cli.scores.calibration import P_CORRECT, relevant_settings
from tokur_cli.scores.catalogue import CATALOGUE

MOST_SCORES = 1_000
"""Scores that are kept of the labelled responses; of more than these, so many at even distances in their order."""

_GENERATION = "generation."
_ANY_GENERATION = ("seed", "version")


@dataclass(frozen=True)
class Certificate:
    """What a certificate's file holds."""

    risk: float  # the part of the answers given that may be wrong
    confidence: float  # how probably it keeps to that, over the labels
    score: str
    threshold: float | None  # answers are given to questions whose score is better; None: to all that have the score
    tie_break: float  # answers are given to those at the threshold whose tie-break is larger; 0 without a threshold
    # The part of the labelled questions that is answered: ``value``, with its 95 % interval ``low``, ``high``
    coverage: Mapping[str, float]
    bound: float  # upper Clopper–Pearson bound of the part that is wrong, at the level of the test
    answered: int  # how many of the labelled questions are answered
    errors: int  # how many of these are answered incorrectly
    questions: int  # how many there are
    # How each one's response was chosen, as ``tokur.selection`` has it, and among how many (``samples``, None where
    # that differs); None for the first response
    selection: Mapping[str, Any] | None
    settings: Mapping[str, Any]  # how the responses and their scores were made
    labels: Mapping[str, int]  # how many of the labels came from where
    scores: tuple[float, ...]  # those of the labelled responses, ascending, see ``MOST_SCORES``
    # What tells the labelled questions by their words, see ``tie_break_of``: the lowest, ascending, at most
    # ``MOST_SCORES``
    asked: tuple[float, ...]
    data: str  # what tells the labelled questions, with scores and labels, from others
    assumption: str = (  # what the guarantee rests on
        "The labelled questions are independent draws from where the new ones come from, and the new ones are answered "
        "and scored in the same way."
    )
    version: str = __version__  # of tokur
    schema: int = 1  # of the file

    def __post_init__(self) -> None:
        if self.score not in CATALOGUE:
            raise ValueError(f"it goes by {self.score}, which this tokur does not compute")

    def answers(self, value: float | None, key: str) -> bool:
        """Return whether an answer is given.

        Args:
            value: the response's score, finite; None where it has none.
            key: what tells its question from others.
        """
        if value is None or self.threshold is None:
            return value is not None
        sign = CATALOGUE[self.score].sign
        return (sign * value, tie_break_of(key)) > (sign * self.threshold, self.tie_break)

    def differences(self, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Yield each setting in which responses differ: its name, theirs and that of the labelled ones.

        How responses were generated is compared where that is known of both.

        Args:
            settings: theirs, see ``settings_for``.
        """
        both = all(any(name.startswith(_GENERATION) for name in of) for of in (settings, self.settings))
        for difference in differences(settings, self.settings):
            if both or not difference[0].startswith(_GENERATION):
                yield difference

    @cached_property
    def digest(self) -> str:
        """What tells it from other certificates: the beginning of the SHA-256 of its file's text."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()[:16]

    @property
    def rule(self) -> str:
        """Which answers are given, in words."""
        if self.threshold is None:
            return f"all that have {self.score}"
        return f"{self.score} {'below' if CATALOGUE[self.score].sign < 0 else 'above'} {self.threshold:.6g}"

    def as_json(self) -> str:
        """Return the text of the file: a field a line, lists of numbers in one."""
        fields = asdict(self)
        lists = [f'  "{name}": {json.dumps(fields.pop(name), allow_nan=False)}' for name in ("scores", "asked")]
        text = json.dumps(fields, ensure_ascii=False, indent=2, allow_nan=False).removesuffix("\n}")
        return ",\n".join([text, *lists]) + "\n}\n"


def tie_break_of(key: str) -> float:
    """Return the tie-break of a question, uniform in [0, 1), by what tells it from others."""
    return (int.from_bytes(hashlib.blake2b(b"lot\0" + key.encode(), digest_size=8).digest(), "big") >> 11) / (1 << 53)


def settings_for(score: str, run: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a response was made and what its score depends on; None for what is not known.

    Args:
        score: its name.
        run: ``tokur.run`` of its record.
        generation: ``tokur.generation`` of its record.
    """
    settings = relevant_settings(run, [score])
    settings |= {name: run[name] for name in ("computed_from",) if name in run}
    if score == P_CORRECT:  # whose calibration holds for scores of one kind only
        settings["calibration"] = run.get("calibration")
    return settings | {
        f"{_GENERATION}{name}": value for name, value in generation.items() if name not in _ANY_GENERATION
    }


def read_certificate(path: str) -> Certificate:
    """Read a certificate's file, see ``read_json``."""
    return read_json(path, Certificate, f"tokur evaluate LABELLED --certify 5% -o {path}")
