"""The responses that a heat map shows: chosen from the stream, given back in the order they are shown."""

from __future__ import annotations

import math
from dataclasses import replace

from tokur_cli.commands.options.heatmap import ChoiceOptions
from tokur_cli.records.errors import TokurError
from tokur_cli.views.heatmap.response import HeatmapResponse


class Gallery:
    """The chosen responses, in memory: of a sorted stream with a limit only as many as are shown, and a few more."""

    def __init__(self, choice: ChoiceOptions) -> None:
        self._sign = 1
        if choice.by:
            from tokur_cli.scores.catalogue import score_named  # has its functions with it, and so needs numpy

            by = score_named(choice.by, "--by")
            choice, self._sign = replace(choice, by=by.name), by.sign
        self.choice = choice
        self._chosen: list[HeatmapResponse] = []
        self._offered = 0
        self._has_label = self._has_score = False

    def offer(self, response: HeatmapResponse) -> None:
        """Keep a response if it is one of those to show."""
        choice, chosen = self.choice, self._chosen
        self._offered += 1
        self._has_label |= response.correct is not None
        if (
            (choice.ids and response.id not in choice.ids)
            or (choice.samples and (response.sample or 0) not in choice.samples)
            or (choice.only and response.correct is not (choice.only == "correct"))
        ):
            return
        self._has_score |= choice.by is not None and response.scores.get(choice.by) is not None
        limit = None if choice.compare else choice.limit
        if limit is None or choice.by or len(chosen) < limit:
            chosen.append(response)
        if limit is not None and len(chosen) > 2 * limit:
            self._chosen = self._ordered()[:limit]

    def check(self) -> None:
        """Refuse to show nothing of what was offered."""
        choice = self.choice
        if choice.only and not self._has_label:
            raise TokurError(
                f"--only {choice.only}: no record says whether it is correct, "
                'by "correct" (true or false) or by a "reference" to compare with'
            )
        if not self._chosen:
            raise TokurError(f"none of the {self._offered:,} responses matches {choice}")
        if choice.by and not self._has_score:
            raise TokurError(f'--by {choice.by}: no response has the score "{choice.by}"; score them with it first')
        if choice.compare and not self.pairs():
            raise TokurError("--compare: no question has two responses here; generate -n 2 makes two of each")

    def responses(self) -> list[HeatmapResponse]:
        """Return the responses in the order they are shown; when comparing, those of a pair one after the other."""
        if self.choice.compare:
            return [response for pair in self.pairs() for response in pair]
        return self._ordered()[: self.choice.limit]

    def pairs(self) -> list[tuple[HeatmapResponse, HeatmapResponse]]:
        """Return two responses to each question that has two: a correct and an incorrect one, else the first two.

        Questions that have both come first, unless the responses are sorted.
        """
        members: dict[str, list[HeatmapResponse]] = {}
        for response in self._ordered():
            members.setdefault(response.group, []).append(response)
        pairs = []
        for responses in members.values():
            right = next((response for response in responses if response.correct), None)
            wrong = next((response for response in responses if response.correct is False), None)
            if right is not None and wrong is not None:
                pairs.append((right, wrong))
            elif len(responses) > 1:
                pairs.append((responses[0], responses[1]))
        if self.choice.by is None:
            pairs.sort(key=lambda pair: pair[0].correct == pair[1].correct)
        return pairs[: self.choice.limit]

    def _ordered(self) -> list[HeatmapResponse]:
        # Sorting is stable: the input's order rules among equals
        return sorted(self._chosen, key=self._sureness) if self.choice.by else self._chosen

    def _sureness(self, response: HeatmapResponse) -> float:
        score = response.scores.get(self.choice.by or "")
        return math.inf if score is None else self._sign * score
