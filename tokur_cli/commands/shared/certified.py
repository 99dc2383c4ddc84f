"""A certificate at work: which answers are given, and what speaks against its assumption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.select import SelectOptions, parse_keep
from tokur_cli.records.errors import RecordError, UsageError, count_of
from tokur_cli.records.question import Question
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import score_named
from tokur_cli.scores.certificate import Certificate, settings_for, tie_break_of

SURE_OF_DRIFT = 0.01  # the p-value below which scores are said to be distributed otherwise


class CertifiedAnswers:
    """What a certificate, of the file ``path``, says of one response after the other."""

    def __init__(self, certificate: Certificate, path: str) -> None:
        self.certificate = certificate
        self._path = path
        self._values: list[float] = []
        self._samples: list[int] = []  # of each question
        self._asked, self._known = set(certificate.asked), 0

    def as_labelled(self, options: SelectOptions) -> SelectOptions:
        """Return how the labelled responses were chosen; where each was the only one, the score breaks no tie.

        Raises:
            UsageError: an option that was given says otherwise.
        """
        chosen = self.certificate.selection
        if chosen is None:
            return options if "by" in options.given else replace(options, by=self.certificate.score)
        least = f",{chosen['keep_at_least']}" if chosen["keep_at_least"] else ""
        wanted = {"by": chosen["by"], "keep": f"{100 * chosen['keep']:.9g}%{least}", "method": chosen["method"]}
        wanted |= {} if chosen["weight"] is None else {"weight": chosen["weight"]}
        readers: dict[str, Callable[[str], Any]] = {
            "keep": parse_keep,
            "by": lambda text: score_named(text, "--by").name,
        }
        for name, value in wanted.items():
            read = readers.get(name, str)
            if name in options.given and read(getattr(options, name)) != read(value):
                raise UsageError(
                    f"--certificate {self._path}: is of responses that were chosen with --{name} {value}: leave "
                    f"--{name} out"
                )
        return replace(options, **wanted)

    def check(self, record: Record) -> None:
        """Refuse a response that was made, or whose score was made, in another way than the labelled ones."""
        for name, theirs, labelled in self.certificate.differences(made_with(record, self.certificate.score)):
            raise record.error(
                f"was made with {name} {theirs}, the responses of --certificate {self._path} with {labelled}: make and "
                "score it as those were, or certify others"
            )

    def answers(self, value: float | None, question: Question, samples: int) -> bool:
        """Return whether a question's answer is given, by its response's score; it was chosen from so many samples.

        Raises:
            RecordError: there are several, and the certificate is of one a question.
        """
        if self.certificate.selection is None and samples > 1:
            raise RecordError(
                f"question {question.name}: has {samples:,} responses, and --certificate {self._path} is of single "
                "ones: certify what tokur select chooses of labelled ones, or keep one a question",
                question.source,
                question.line,
            )
        self._samples.append(samples)
        self._known += tie_break_of(question.prompt or question.key) in self._asked
        if value is not None:
            self._values.append(value)
        return self.certificate.answers(value, question.key)

    def notes(self) -> Iterator[str]:
        """Yield what speaks against the certificate's assumption, a line each."""
        if lacking := len(self._samples) - len(self._values):
            yield f"{lacking:,} of {len(self._samples):,} answers withheld without a finite {self.certificate.score}"
        if self._known:
            yield (
                f"among the questions that the certificate was made of: {self._known:,} of {len(self._samples):,}; "
                "what it guarantees is for new ones"
            )
        labelled = (self.certificate.selection or {"samples": 1})["samples"]
        if labelled is not None and (others := sum(samples != labelled for samples in self._samples)):
            yield (
                f"not with the {labelled} responses that the certificate's have: {count_of(others, 'question')}; what "
                "it guarantees does not hold there"
            )
        if self._values:
            from scipy.stats import ks_2samp

            found = ks_2samp(self.certificate.scores, self._values, method="asymp")
            if found.pvalue < SURE_OF_DRIFT:
                yield (
                    f"{self.certificate.score} is distributed otherwise than among the labelled responses "
                    f"(Kolmogorov–Smirnov {found.statistic:.2f}, p {found.pvalue:.1g}): what the certificate "
                    "guarantees does not hold for these questions; label some and certify again"
                )


def made_with(record: Record, score: str) -> dict[str, Any]:
    """Return how a record's response was made, and one of its scores, as certificates know it."""
    return settings_for(score, record.computed("run"), record.computed("generation"))
