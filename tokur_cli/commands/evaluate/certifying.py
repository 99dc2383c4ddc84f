"""``--certify``: from labelled scores to a certificate, as a file, a table and a plot."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokur_cli.answers.judging import UNLABELLED, Labelled
from tokur_cli.commands.evaluate.columns import Wanted
from tokur_cli.commands.evaluate.responses import ResponseReader
from tokur_cli.commands.options.certify import CertifyOptions
from tokur_cli.commands.options.evaluate import EvaluationOutput
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.certified import how_selected, made_with
from tokur_cli.commands.shared.digests import content_digest
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.metrics.certification import (
    MOST_TIMES,
    Target,
    certify,
    fewest,
    in_order,
    labels_needed,
    least_risk,
    lower_bound,
    upper_bound,
)
from tokur_cli.metrics.ranked import Floats
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.catalogue import Score, choose_scores
from tokur_cli.scores.certificate import MOST_SCORES, Certificate, lot_of
from tokur_cli.scores.parts import Parts, check_used
from tokur_cli.selection.gathering import question_key
from tokur_cli.views.tables import MISSING, Percentage, table_console
from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from rich.console import Console

COMMAND = "evaluate"
DEFAULT_SCORE = "eu"
_INTERVAL = 0.025
"""What either end of an interval of 95 % leaves out."""


def write_certificate(
    paths: Sequence[str],
    source: InputOptions,
    options: CertifyOptions,
    by: str | None,
    parts: Parts,
    labels: LabelOptions,
    target: EvaluationOutput,
) -> None:
    """Find what these labels certify and write it; what cannot be certified ends in an error that says what could."""
    assert options.most_wrong is not None
    if target.plots is not None:
        from tokur_cli.views.plots import require_matplotlib

        require_matplotlib()
    certification = Certification(_chosen(by, parts), parts, Target(options.most_wrong, options.doubt))
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    wanted = Wanted({certification.score.name: certification.score.orientation})
    reader = ResponseReader(source, wanted, invalid, labels, parts=parts, collector=certification)
    runs = reader.read(paths, target)
    for line in reader.told:
        say(COMMAND, line)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if len(runs) > 1:
        raise TokurError("--certify takes one run: put its files together, or leave out the records of other seeds")
    for line in certification.told():
        say(COMMAND, line)
    certificate = certification.certificate()
    if target.plots is not None:
        certification.plot(certificate, target.plots)
    with writing_whole(target.path or STDIN) as file:
        if target.is_table:
            with table_console(file) as console:
                _print(certificate, certification.how_chosen, console)
        else:
            file.write(certificate.as_json())
            say(COMMAND, _summary(certificate))
    invalid.finish()


def _chosen(by: str | None, parts: Parts) -> Score:
    scores = choose_scores(by or DEFAULT_SCORE, parts)
    if len(scores) > 1:
        raise UsageError(f"--certify goes by one score, and --by {by} names {len(scores)}; p_correct is one of several")
    check_used([scores[0].name], parts, "--by")
    return scores[0]


@dataclass(slots=True)
class _Response:
    """The first response to a question.

    Attributes:
        value: its score, NaN where it has none.
        label: 1 for right, 0 for wrong, NaN where that is not known.
        sample: its number.
        source: where its label is from; None where there is none.
        outcome: as ``Labelled`` has it.
        chosen: how ``select`` chose it, and among how many; None if it did not.
    """

    value: float
    label: float
    sample: int
    source: str | None
    outcome: str
    chosen: dict[str, Any] | None


@dataclass
class Certification:
    """A certificate on its way: the first response to each question."""

    score: Score
    parts: Parts
    target: Target
    settings: dict[str, Any] | None = None
    others: int = 0
    _first: dict[str, _Response] = field(default_factory=dict)

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take a record, if it is the first of its question so far."""
        record = labelled.record
        if labelled.label not in (0.0, 1.0) and not math.isnan(labelled.label):
            raise record.error(
                f"has a quality of {labelled.label:g}: --certify counts right and wrong answers; say which this is in "
                'a field "correct"'
            )
        key = question_key(record)
        there = self._first.get(key)
        chosen = _selection(record)
        if there is not None and None not in (chosen, there.chosen):
            raise record.error(f"is a second response that tokur select chose to its question ({record.id})")
        self.others += there is not None
        value = values.get(self.score.name, math.nan)
        if math.isfinite(value):
            self._check(record)
        if there is None or record.sample < there.sample:
            self._first[key] = _Response(
                value, labelled.label, record.sample, labelled.source, labelled.outcome, chosen
            )

    def _check(self, record: Record) -> None:
        """Refuse a record that was made, or whose score was made, in another way than those before it."""
        settings = made_with(record, self.score.name, self.parts)
        if self.settings is None:
            self.settings = settings
        for name in {**self.settings, **settings}:
            if settings.get(name) != self.settings.get(name):
                raise record.error(
                    f"was made with {name} {settings.get(name)}, records before it with {self.settings.get(name)}: a "
                    "certificate is of responses that were made and scored in one way"
                )

    @property
    def _responses(self) -> dict[str, _Response]:
        """Those that have a label, by what tells their questions."""
        return {key: response for key, response in self._first.items() if not math.isnan(response.label)}

    @property
    def how_chosen(self) -> str:
        """Which response of a question counts, in words."""
        if self.selection is not None:
            return "what tokur select chose of the samples of each question"
        return "the first sample of each question" if self.others else "one to each question"

    @property
    def selection(self) -> dict[str, Any] | None:
        """How ``select`` chose the responses; None if it did not.

        Raises:
            TokurError: not all in one way.
        """
        found = [response.chosen for response in self._responses.values()]
        if not any(found):
            return None
        if not all(found):
            raise TokurError("some records were chosen by tokur select and others were not: certify them apart")
        samples = {one["samples"] for one in found if one}
        ways = [{name: value for name, value in one.items() if name != "samples"} for one in found if one]
        if any(way != ways[0] for way in ways):
            raise TokurError("the records were chosen by tokur select in different ways: certify them apart")
        return {**ways[0], "samples": samples.pop() if len(samples) == 1 else None}

    def told(self) -> list[str]:
        """Return what the user should know of the records, a line each."""
        unlabelled = Counter(response.outcome for response in self._first.values() if math.isnan(response.label))
        lines = [
            f"left out {count:,} question{'s' * (count != 1)} {UNLABELLED.get(outcome, 'without a label')}"
            for outcome, count in unlabelled.items()
        ]
        if self.others:
            lines.append(
                f"left out {self.others:,} further samples: the first of each question counts; for the answer of a "
                "vote certify what tokur select writes"
            )
        without = sum(not math.isfinite(response.value) for response in self._responses.values())
        if without:
            are = "1 question has" if without == 1 else f"{without:,} questions have"
            lines.append(f"{are} no {self.score.name}: not answered")
        return lines

    def certificate(self) -> Certificate:
        """Return what is certified.

        Raises:
            TokurError: nothing can be; it says what could.
        """
        values, wrong, lots = self._scored()
        if not len(values):
            raise TokurError(
                f"no record has both a label and the score {self.score.name}: run tokur score first, or name another "
                "with --by"
            )
        confidence = self._sign * values
        found = certify(confidence, lots, wrong, self.target)
        if found is None:
            raise TokurError(self._refusal(confidence, lots, wrong))
        responses = self._responses
        questions, sources = len(responses), Counter(response.source for response in responses.values())
        ascending = np.sort(values)
        kept = np.linspace(0, len(ascending) - 1, min(len(ascending), MOST_SCORES)).round().astype(np.intp)
        return Certificate(
            risk=self.target.risk,
            confidence=round(1 - self.target.doubt, 12),
            score=self.score.name,
            threshold=None if found.next is None else float(values[found.next]),
            lot=None if found.next is None else float(lots[found.next]),
            coverage={
                "value": found.size / questions,
                "low": float(lower_bound(found.size, questions, _INTERVAL)),
                "high": float(upper_bound(found.size, questions, _INTERVAL)),
            },
            bound=found.bound,
            answered=found.size,
            errors=found.errors,
            questions=questions,
            selection=self.selection,
            settings=self.settings or {},
            labels={source: count for source, count in sources.items() if source is not None},
            scores=tuple(ascending[kept].tolist()),
            data=content_digest(
                sorted(
                    [key, None if math.isnan(response.value) else response.value, response.label]
                    for key, response in responses.items()
                )
            ),
        )

    def plot(self, certificate: Certificate, folder: str) -> None:
        """Draw the risk and its bound at each coverage, and what is certified."""
        from tokur_cli.commands.evaluate.plots import thinned
        from tokur_cli.views import plots

        values, wrong, lots = self._scored()
        errors = np.cumsum(wrong[in_order(self._sign * values, lots)])
        size = np.arange(1, len(values) + 1)
        coverage = size / certificate.questions
        bound = upper_bound(errors, size, self.target.doubt)
        point = np.array([certificate.answered / certificate.questions])
        risk = np.array([certificate.errors / certificate.answered])
        plots.lines(
            os.path.join(folder, "certificate"),
            [
                plots.Curve(f"{certificate.score}: wrong among these labels", *thinned(coverage, errors / size)),
                plots.Curve("upper bound, of each coverage alone", *thinned(coverage, bound)),
                plots.Curve(f"certified: {certificate.rule}", point, risk),
            ],
            plots.Curve(f"at most {certificate.risk:.3g}", np.array([0.0, 1.0]), np.full(2, certificate.risk)),
            plots.Plane(
                f"Risk and coverage, {100 * certificate.confidence:g} % confidence",
                "coverage: part answered, the most confident first",
                "risk: part of these that is wrong",
            ),
        )

    @property
    def _sign(self) -> float:
        return -1.0 if self.score.orientation == "uncertainty" else 1.0

    def _scored(self) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]], Floats]:
        """Return (N,) scores, whether each response is wrong, and the lots of the questions that have the score."""
        having = {key: one for key, one in self._responses.items() if math.isfinite(one.value)}
        values = np.array([one.value for one in having.values()], dtype=np.float64)
        wrong = np.array([one.label == 0.0 for one in having.values()], dtype=bool)
        return values, wrong, np.array([lot_of(key) for key in having], dtype=np.float64)

    def _refusal(self, confidence: Floats, lots: Floats, wrong: np.ndarray[Any, np.dtype[np.bool_]]) -> str:
        """Return that nothing can be certified, how many labels would do, and what could be certified now."""
        target, count = self.target, len(confidence)
        least = fewest(target.risk, target.doubt)
        said = f"{100 * target.risk:.4g} % cannot be certified by {self.score.name} on {count:,} labelled questions, "
        said += f"of which {int(wrong.sum()):,} are answered wrong"
        if count < least:
            said += f": without any error it takes {least:,}"
        needed = labels_needed(confidence, lots, wrong, target)
        if needed is None:
            said += f"; at such error rates {MOST_TIMES} times as many would not do: try another --by or model"
        else:
            said += f"; about {needed:,} would do if the error rates stayed as they are here"
        lowest = least_risk(confidence, lots, wrong, target)
        if lowest is not None:
            said += (
                f"; the lowest on these would be --certify {100 * lowest:.3g}%, but what is chosen by the labels "
                f"does not hold with {100 * (1 - target.doubt):.4g} % confidence: label others for it"
            )
        return said


def _selection(record: Record) -> dict[str, Any] | None:
    """Return how ``select`` chose a response, and among how many; None if it did not."""
    settings = record.computed("selection")
    if not isinstance(settings, dict):
        return None
    return {**how_selected(settings), "samples": record.computed("n")}


def _summary(certificate: Certificate) -> str:
    return (
        f"{_promise(certificate)}: {certificate.rule}, {certificate.answered:,} of {certificate.questions:,} questions "
        f"({certificate.answered / certificate.questions:.2%}), {certificate.errors:,} of these wrong"
    )


def _promise(certificate: Certificate) -> str:
    risk, confidence = 100 * certificate.risk, 100 * certificate.confidence
    return f"at most {risk:.4g} % of the answers given are wrong, with {confidence:.4g} % confidence"


def _print(certificate: Certificate, responses: str, console: Console) -> None:
    """Print what is certified, and of what."""
    from rich.table import Table
    from rich.text import Text

    given = certificate.coverage
    coverage = Percentage(given["value"], given["low"], given["high"])
    part, made = certificate.errors / certificate.answered, certificate.settings
    rows = {
        "answers given": certificate.rule,
        "coverage": f"{coverage.shown} % {coverage.aside(1)}, {certificate.answered:,} of {certificate.questions:,}",
        "wrong of these": f"{100 * part:.2f} %, {certificate.errors:,} of {certificate.answered:,}; upper bound "
        f"{100 * certificate.bound:.2f} %",
        "responses": responses,
        "made with": ", ".join(f"{name} {value}" for name, value in made.items() if value is not None) or MISSING,
        "data": certificate.data,
        "assumption": certificate.assumption,
    }
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows.items():
        grid.add_row(name, Text(picture(text)))
    console.print(Text(_promise(certificate).capitalize(), style="bold"), soft_wrap=True)
    console.print(grid)
