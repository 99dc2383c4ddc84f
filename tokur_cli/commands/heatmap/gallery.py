"""The responses that a heat map shows: chosen from the stream, kept on disk, given back in the order they are shown."""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Iterator
from itertools import islice

from tokur_cli.commands.options.heatmap import ChoiceOptions
from tokur_cli.records.errors import TokurError, UsageError, there_are
from tokur_cli.records.quantity import Orientation
from tokur_cli.views.heatmap.response import HeatmapResponse


class Gallery:
    """The chosen responses, in an unnamed temporary file; four numbers of each are held in memory.

    Args:
        choice: what is shown.
    """

    def __init__(self, choice: ChoiceOptions) -> None:
        self._choice = choice
        self._orientation = _orientation_of(choice.sort) if choice.sort else "uncertainty"
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._places = array("q")
        self._doubts = array("d")
        self._questions = array("q")  # the number of each one's question, if they are compared
        self._verdicts = array("b")  # 1 right, 0 wrong, -1 not known
        self._question_numbers: dict[str, int] = {}
        self._offered = self._labelled = self._without_score = 0

    def __enter__(self) -> Gallery:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def offer(self, response: HeatmapResponse, question: str, sample: int) -> None:
        """Keep a response if it is one of those to show.

        Args:
            response: the response.
            question: what the responses to one question have in common.
            sample: its number among them.
        """
        choice = self._choice
        self._offered += 1
        self._labelled += response.correct is not None
        if (
            (choice.ids and response.id not in choice.ids)
            or (choice.samples and sample not in choice.samples)
            or (choice.only and response.correct is not (choice.only == "correct"))
        ):
            return
        if not (choice.sort or choice.compare) and choice.limit is not None and len(self._places) >= choice.limit:
            return
        score = response.scores.get(choice.sort) if choice.sort else None
        self._without_score += score is None
        self._doubts.append(float("-inf") if score is None else score if self._orientation == "uncertainty" else -score)
        if choice.compare:
            self._questions.append(self._question_numbers.setdefault(question, len(self._question_numbers)))
        self._verdicts.append(-1 if response.correct is None else response.correct)
        self._places.append(self._file.tell())
        pickle.dump(response, self._file, pickle.HIGHEST_PROTOCOL)

    def check(self) -> None:
        """Refuse to show nothing.

        Raises:
            TokurError: there were responses but none was chosen, or none has the score that they are sorted by.
        """
        choice = self._choice
        if self._offered and choice.only and not self._labelled:
            raise TokurError(
                f"--only {choice.only}: no record says whether it is right, "
                'by "correct" (true or false) or by a "reference" to compare with'
            )
        if self._offered and not self._places:
            raise TokurError(f"none of the {self._offered:,} responses matches {choice}")
        if self._places and choice.sort and self._without_score == len(self._places):
            raise TokurError(
                f'--sort {choice.sort}: no response has the score "{choice.sort}"; score them with it first'
            )
        if self._places and choice.compare and not self._paired():
            raise TokurError("--compare: no question has two responses here; generate -n 2 makes two of each")

    def __len__(self) -> int:
        """Return how many responses are shown."""
        if self._choice.compare:
            return 2 * len(self._paired())
        limit = self._choice.limit
        return len(self._places) if limit is None else min(limit, len(self._places))

    def responses(self) -> Iterator[HeatmapResponse]:
        """Yield the responses in the order they are shown; when comparing, those of a pair one after the other."""
        if self._choice.compare:
            for pair in self.pairs():
                yield from pair
        else:
            for index in islice(self._order(), self._choice.limit):
                yield self._read(index)

    def pairs(self) -> Iterator[tuple[HeatmapResponse, HeatmapResponse]]:
        """Yield two responses to each question that has two: a right and a wrong one if it has both, else the first.

        Questions that have both come first, unless the responses are sorted.
        """
        for left, right in self._paired():
            yield self._read(left), self._read(right)

    def _order(self) -> Iterator[int]:
        everything = range(len(self._places))
        # Sorting is stable: the input's order rules among equals
        return iter(sorted(everything, key=lambda index: -self._doubts[index]) if self._choice.sort else everything)

    def _paired(self) -> list[tuple[int, int]]:
        """Return the pairs by index, a right and a wrong one where there are both, else the first two."""
        members: dict[int, list[int]] = {}
        for index in self._order():
            members.setdefault(self._questions[index], []).append(index)
        pairs = []
        for indices in members.values():
            right = next((index for index in indices if self._verdicts[index] == 1), None)
            wrong = next((index for index in indices if self._verdicts[index] == 0), None)
            if right is not None and wrong is not None:
                pairs.append((right, wrong))
            elif len(indices) > 1:
                pairs.append((indices[0], indices[1]))
        if self._choice.sort is None:
            pairs.sort(key=lambda pair: self._verdicts[pair[0]] == self._verdicts[pair[1]])
        return pairs[: self._choice.limit]

    def _read(self, index: int) -> HeatmapResponse:
        self._file.seek(self._places[index])
        response: HeatmapResponse = pickle.load(self._file)
        return response


def _orientation_of(score: str) -> Orientation:
    from tokur_cli.scores.catalogue import CATALOGUE  # has its functions with it, and so needs numpy

    if score not in CATALOGUE:
        raise UsageError(f"--sort {score}: there is no such score{there_are(CATALOGUE, score)}")
    return CATALOGUE[score].orientation
