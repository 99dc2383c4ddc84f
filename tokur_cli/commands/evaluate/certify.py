"""``--certify``: labelled records are read, one response to each question, and a certificate is written and printed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokur_cli.answers.grading import UNLABELLED, Labelled
from tokur_cli.commands.evaluate.reading import RunReader, Wanted
from tokur_cli.commands.evaluate.tables import figure
from tokur_cli.commands.options.evaluate import CertifyOptions, EvaluationOutput
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.certified import how_selected, made_with
from tokur_cli.commands.shared.digests import content_digest
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.metrics.certification import certify, fewest, upper_bound
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.provenance import Provenance
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.catalogue import Score, choose_scores
from tokur_cli.scores.certificate import MOST_SCORES, Certificate, tie_break_of
from tokur_cli.views.tables import MISSING, table_console
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
    labels: LabelOptions,
    target: EvaluationOutput,
) -> None:
    """Find what these labels certify and write it; what cannot be certified ends in an error that says what could."""
    assert options.risk is not None
    scores = choose_scores(by or DEFAULT_SCORE)
    if len(scores) > 1:
        raise UsageError(f"--certify goes by one score, and --by {by} names {len(scores)}; p_correct is one of several")
    questions = LabelledQuestions(scores[0])
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    wanted = Wanted({questions.score.name: questions.score.orientation})
    reader = RunReader(source, wanted, invalid, labels, questions.add)
    runs = reader.read(paths, target.graded, force=target.force)
    for line in reader.notes:
        say(COMMAND, line)
    if not runs:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if len(runs) > 1:
        raise TokurError("--certify takes one run: put its files together, or leave out the records of other seeds")
    for line in questions.notes():
        say(COMMAND, line)
    certificate = find(questions, options.risk, options.delta)
    with writing_whole(target.path or STDIN) as file:
        if target.is_table:
            with table_console(file) as console:
                print_certificate(certificate, questions.how_chosen, console)
        else:
            file.write(certificate.as_json())
            say(COMMAND, summary(certificate))
    invalid.finish()


@dataclass(slots=True)
class Response:
    """The first response to a question.

    Attributes:
        value: its score, NaN where it has none.
        label: 1 for right, 0 for wrong, NaN where that is not known.
        sample: its number.
        source: where its label is from; None where there is none.
        outcome: as ``Labelled`` has it.
        chosen: how ``select`` chose it, and among how many; None if it did not.
        asked: what its question asks: a digest of the prompt, else what tells the question from others.
    """

    value: float
    label: float
    sample: int
    source: str | None
    outcome: str
    chosen: dict[str, Any] | None
    asked: str


@dataclass
class LabelledQuestions:
    """The first response to each question, as far as it has a label.

    Attributes:
        settings: how the responses and their scores were made.
        others: how many further samples there are.
    """

    score: Score
    settings: dict[str, Any] | None = None
    others: int = 0
    _first: dict[str, Response] = field(default_factory=dict)
    _questions: Questions = field(default_factory=Questions)

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take a record, if it is the first of its question so far."""
        record = labelled.record
        if labelled.label not in (0.0, 1.0) and not math.isnan(labelled.label):
            raise record.error(
                f"has a quality of {labelled.label:g}: --certify counts correct and incorrect answers; say which this "
                'is in a field "correct"'
            )
        question = self._questions.of(record)
        key = question.key
        there = self._first.get(key)
        chosen = _selection(record)
        if there is not None and None not in (chosen, there.chosen):
            raise record.error(f"is a second response that tokur select chose to its question ({record.id})")
        self.others += there is not None
        value = values.get(self.score.name, math.nan)
        if math.isfinite(value):
            self._check(record)
        if there is None or record.sample < there.sample:
            label, source, outcome = labelled.label, labelled.source, labelled.outcome
            self._first[key] = Response(value, label, record.sample, source, outcome, chosen, question.prompt or key)

    def _check(self, record: Record) -> None:
        """Refuse a record that was made, or whose score was made, in another way than those before it."""
        settings = made_with(record, self.score.name)
        if self.settings is None:
            self.settings = settings
        for name, value, before in Provenance(settings).differences(self.settings):
            raise record.error(
                f"was made with {name} {value}, records before it with {before}: a certificate is of responses that "
                "were made and scored in one way"
            )

    @property
    def responses(self) -> dict[str, Response]:
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
        found = [response.chosen for response in self.responses.values()]
        if not any(found):
            return None
        ways = [None if one is None else {**one, "samples": None} for one in found]
        if any(way != ways[0] for way in ways):
            raise TokurError("tokur select did not choose all records in one way: certify them apart")
        samples = {one["samples"] for one in found if one}
        return {**(ways[0] or {}), "samples": samples.pop() if len(samples) == 1 else None}

    def notes(self) -> list[str]:
        """Return what the user should know of the records, a line each."""
        unlabelled = Counter(response.outcome for response in self._first.values() if math.isnan(response.label))
        lines = [
            f"skipped {count:,} question{'s' * (count != 1)} {UNLABELLED.get(outcome, 'without a label')}"
            for outcome, count in unlabelled.items()
        ]
        if merged := self._questions.merged():
            lines.append(merged)
        if self.others:
            lines.append(
                f"skipped {self.others:,} further samples: the first of each question counts; for the answer of a "
                "vote certify what tokur select writes"
            )
        without = sum(not math.isfinite(response.value) for response in self.responses.values())
        if without:
            are = "1 question has" if without == 1 else f"{without:,} questions have"
            lines.append(f"{are} no {self.score.name}: not answered")
        return lines


def _selection(record: Record) -> dict[str, Any] | None:
    """Return how ``select`` chose a response, and among how many; None if it did not."""
    settings = record.computed("selection")
    if not isinstance(settings, dict):
        return None
    return {**how_selected(settings), "samples": record.computed("n")}


def find(labelled: LabelledQuestions, alpha: float, delta: float) -> Certificate:
    """Return what is certified.

    Args:
        labelled: the questions.
        alpha: the share of the answers given that may be wrong.
        delta: the probability that this fails.

    Raises:
        TokurError: nothing can be; it says what could.
    """
    score, responses = labelled.score, labelled.responses
    having = {key: one for key, one in responses.items() if math.isfinite(one.value)}
    if not having:
        raise TokurError(
            f"no record has both a label and the score {score.name}: score with it, or name another with --by"
        )
    values = np.array([one.value for one in having.values()], dtype=np.float64)
    wrong = np.array([one.label == 0.0 for one in having.values()], dtype=bool)
    tie_breaks = np.array([tie_break_of(key) for key in having], dtype=np.float64)
    found = certify(-values if score.orientation == "uncertainty" else values, tie_breaks, wrong, alpha, delta)
    if found is None:
        raise TokurError(
            f"{100 * alpha:.4g} % cannot be certified by {score.name} on {len(values):,} labelled questions, of which "
            f"{int(wrong.sum()):,} are answered incorrectly: without any error it takes {fewest(alpha, delta):,}, with "
            "errors more"
        )
    count, ascending = len(responses), np.sort(values)
    kept = np.linspace(0, len(ascending) - 1, min(len(ascending), MOST_SCORES)).round().astype(np.intp)
    return Certificate(
        risk=alpha,
        confidence=round(1 - delta, 12),
        score=score.name,
        threshold=None if found.next is None else float(values[found.next]),
        tie_break=None if found.next is None else float(tie_breaks[found.next]),
        coverage={
            "value": found.size / count,
            "low": 1 - float(upper_bound(count - found.size, count, _INTERVAL)),
            "high": float(upper_bound(found.size, count, _INTERVAL)),
        },
        bound=found.bound,
        answered=found.size,
        errors=found.errors,
        questions=count,
        selection=labelled.selection,
        settings=labelled.settings or {},
        labels=dict(Counter(one.source for one in responses.values() if one.source is not None)),
        scores=tuple(ascending[kept].tolist()),
        asked=tuple(sorted(tie_break_of(one.asked) for one in responses.values())[:MOST_SCORES]),
        data=content_digest(
            sorted([key, None if math.isnan(one.value) else one.value, one.label] for key, one in responses.items())
        ),
    )


def summary(certificate: Certificate) -> str:
    """Return what is promised, by which rule, and what it gives on the labelled questions."""
    return (
        f"{_promise(certificate)}: {certificate.rule}, {certificate.answered:,} of {certificate.questions:,} questions "
        f"({certificate.answered / certificate.questions:.2%}), {certificate.errors:,} of these incorrect"
    )


def _promise(certificate: Certificate) -> str:
    risk, confidence = 100 * certificate.risk, 100 * certificate.confidence
    return f"at most {risk:.4g} % of the answers given are incorrect, with {confidence:.4g} % confidence"


def print_certificate(certificate: Certificate, responses: str, console: Console) -> None:
    """Print what is certified, and of what.

    Args:
        certificate: what is certified.
        responses: which response of a question counts, in words.
        console: where to.
    """
    from rich.text import Text

    given = certificate.coverage
    coverage = figure(Estimate(given["value"], given["low"], given["high"]))
    part, made = certificate.errors / certificate.answered, certificate.settings
    rows = {
        "answers given": certificate.rule,
        "coverage": f"{coverage.text} % {coverage.aside}, {certificate.answered:,} of {certificate.questions:,}",
        "incorrect": f"{100 * part:.2f} %, {certificate.errors:,} of {certificate.answered:,}; upper bound "
        f"{100 * certificate.bound:.2f} %",
        "responses": responses,
        "made with": ", ".join(f"{name} {value}" for name, value in made.items() if value is not None) or MISSING,
        "data": certificate.data,
        "assumption": certificate.assumption,
    }
    console.print(Text(_promise(certificate).capitalize(), style="bold"), soft_wrap=True)
    for name, text in rows.items():
        console.print(f"{name:<15} {picture(text)}", soft_wrap=True)
