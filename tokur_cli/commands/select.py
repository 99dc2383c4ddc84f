"""``tokur select``: N scored responses per question in, the best answer of each question out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tokur_cli import __version__
from tokur_cli.answers.classes import AnswerClasses, answer_classes
from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import UNLABELLED, Labelled, is_code
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.select import SelectOptions
from tokur_cli.commands.options.streams import InputOptions, RecordOutput
from tokur_cli.commands.shared.certified import CertifiedAnswers
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import Labeller, Refused, told_unmarked
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.question import Question, Questions
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import RecordWriter, open_output
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, score_named
from tokur_cli.scores.certificate import read_certificate
from tokur_cli.selection.accuracy import SelectionAccuracy
from tokur_cli.selection.gathering import Candidate, QuestionStore
from tokur_cli.selection.input_warnings import InputWarnings
from tokur_cli.selection.voting import Choice, Rule, choose, parse_keep

COMMAND = "select"
_PROGRESS_STEP = 1000


def select(source: InputOptions, options: SelectOptions, labels: LabelOptions, target: RecordOutput) -> None:
    """Choose an answer to each question.

    Without ``grouped`` nothing is written before the whole input is read, so a bad record ends the command without any
    output; with it, all questions before the bad record's are written.
    """
    certified = None
    if options.certificate is not None:
        certified = CertifiedAnswers(read_certificate(options.certificate), options.certificate)
        options = certified.as_labelled(options)
    selection = _Selection(options, source.skip_invalid, certified)
    items = read_input(COMMAND, source, is_labelled=labels.label_field is not None)
    with (
        Progress(COMMAND) as progress,
        open_output(target.path, force=target.force, whole=True) as writer,
        QuestionStore(whole=options.records) as gathering,
        Labeller(labels, selection.invalid, is_strict=False) as labelling,
    ):
        progress.start(lambda: count_lines(source.path))
        selection.run(items, gathering, labelling, writer, progress)
        writer.finish()
    for line in selection.messages():
        say(COMMAND, line)
    selection.invalid.finish(none_of=None if selection.taken else display_name(source.path))


class _Selection:
    """One run: records into questions, questions into choices."""

    def __init__(self, options: SelectOptions, skip_invalid: bool, certified: CertifiedAnswers | None) -> None:
        by = score_named(options.by, "--by")
        options = replace(options, by=by.name)
        self.rule = Rule(options.method, parse_keep(options.keep), options.weight)
        self.options, self.certified = options, certified
        self.sign = -1.0 if by.orientation == "uncertainty" else 1.0
        self.settings = {
            "by": options.by,
            "keep": float(self.rule.keep.fraction),
            "keep_at_least": self.rule.keep.minimum if self.rule.keep.minimum > 1 else None,
            "method": options.method,
            "weight": options.weight if options.method == "wbon" else None,
            "abstain": options.abstain,
            **({} if certified is None else {"certificate": certified.certificate.digest}),
            "version": __version__,
        }
        self.invalid = InvalidRecords(COMMAND, skip_invalid)
        self.accuracy = SelectionAccuracy(abstains=options.abstains)
        self.questions = self.answered = self.answerless = self.unmarked = 0
        self.unjudged: Counter[str] = Counter()
        self.notes = InputWarnings(options.by, self.rule)
        self.other_scores: dict[str, None] = {}
        self.taken = 0
        self.asked = Questions()

    def run(
        self,
        items: Iterator[Record | RecordError],
        gathering: QuestionStore,
        labelling: Labeller,
        writer: RecordWriter,
        progress: Progress,
    ) -> None:
        """Read all records and write all choices."""
        done: set[str] = set()
        for number, item in enumerate(items, start=1):
            if number % _PROGRESS_STEP == 0:
                progress.advance(_PROGRESS_STEP)
            try:
                if isinstance(item, RecordError):
                    raise item
                question = self.asked.of(item)
                if self.options.grouped and question.key not in gathering.questions:
                    self._finish(gathering, labelling, writer)
                    done.update(gathering.questions)
                    gathering.clear()
                    if question.key in done:
                        raise _comes_back(item)
                labelled = labelling.take(item)
                if isinstance(labelled, Refused):
                    raise labelled.error
                self._gather(question, labelled, gathering)
                self.taken += 1
            except RecordError as error:
                self.invalid.skip_or_raise(error)
        self._finish(gathering, labelling, writer)

    def messages(self) -> Iterator[str]:
        """Yield the messages for the end, the summary last."""
        if merged := self.asked.merged():
            yield merged
        yield from self.notes.lines()
        if self.certified is not None:
            yield from self.certified.told()
        for outcome in (Outcome.CODE_NOT_RUN, Outcome.RULE_NOT_USED):
            if count := self.unjudged[outcome]:
                yield f"not judged right or wrong: {count:,} response{'s' * (count > 1)} {UNLABELLED[outcome]}"
        if self.unmarked:
            yield told_unmarked(self.unmarked)
        mean = f"{self.options.by}_mean"
        if mean in CATALOGUE and self.rule.needs_score and self.certified is None:
            yield f"{self.options.by} adds up over tokens and favours short responses; the paper selects by {mean}"
        if self.options.abstains and self.questions:
            part = self.answered / self.questions
            others = "too uncertain of the others"
            if self.answerless:
                unsure = self.questions - self.answered - self.answerless
                others = f"too uncertain of {unsure:,}, no answer was read to {self.answerless:,}"
            yield f"answered {self.answered:,} of {self.questions:,} questions ({part:.2%}), {others}"
        summary = self.accuracy.summary()
        if summary:
            yield summary

    def _gather(self, question: Question, labelled: Labelled, gathering: QuestionStore) -> None:
        record = labelled.record
        if is_code(record) and self.rule.method != "bon":
            method = self.rule.method
            raise record.error(f"is code, and {method} counts equal answers, of which code has none: give --method bon")
        self.unjudged[labelled.outcome] += labelled.awaits is None
        scores = record.scores
        response = Candidate(
            None if labelled.answer is None else sys.intern(labelled.answer),  # most answers come many times
            self._confidence(record, scores),
            certified=self._certified(record, scores),
            is_unmarked=labelled.is_unmarked,
            is_code=is_code(record),
            correct=labelled.correct,
            awaits=labelled.awaits,
        )
        gathering.add(question, record, response)

    def _certified(self, record: Record, scores: Mapping[str, Any]) -> float | None:
        """Return the score that the certificate goes by."""
        if self.certified is None:
            return None
        self.certified.check(record)
        name = self.certified.certificate.score
        return record.number(f'"tokur.scores.{name}"', scores.get(name))

    def _confidence(self, record: Record, scores: Mapping[str, Any]) -> float | None:
        value = scores.get(self.options.by)
        if value is None:
            self.other_scores.update(dict.fromkeys(name for name, other in scores.items() if other is not None))
        number = record.number(f'"tokur.scores.{self.options.by}"', value)
        return None if number is None else self.sign * number

    def _finish(self, gathering: QuestionStore, labelling: Labeller, writer: RecordWriter) -> None:
        """Choose for the gathered questions, and write."""
        verdicts: dict[int, dict[str, Any]] = {}
        withheld: dict[int, bool] = {}  # of chosen responses
        for gathered in gathering.questions.values():
            question = gathered.question
            drawn, duplicates = gathered.without_duplicates()
            self.notes.look_at(gathered, drawn, duplicates)
            classes = answer_classes([response.answer for response in drawn], labelling.equivalence)
            choice = choose([response.confidence for response in drawn], classes.labels, self.rule)
            certainty = None if choice is None else self._certainty(drawn, choice)
            answers = self._answers(question, drawn, choice, certainty)
            self.questions, self.answered = self.questions + 1, self.answered + answers
            correct = _correct(question.references, drawn, gathering, labelling)
            self._count(question, drawn, classes, choice, correct, answers)
            if choice is None:
                self.invalid.skip_or_raise(self._nothing_kept(question))
            if self.options.records:
                verdicts.update(_verdicts(drawn, classes, choice, answers))
                if choice is not None and self.options.abstains:
                    withheld[drawn[choice.chosen].offset] = not answers
            elif choice is not None:
                selected = self._selected(gathering.record(drawn[choice.chosen]), drawn, choice)
                writer.write(_with_certainty(selected, certainty, answers) if self.options.abstains else selected)
        if self.options.records:
            for response in gathering.in_input_order():
                record = gathering.record(response)
                verdict = verdicts.get(response.offset) or _verdict(response, drawn=False)
                tokur = {name: value for name, value in record.tokur.items() if name != "withheld"}
                if response.offset in withheld:
                    tokur["withheld"] = withheld[response.offset]
                record.set("tokur", {"schema": SCHEMA, **tokur, "select": verdict})
                writer.write(record)

    def _certainty(self, drawn: list[Candidate], choice: Choice) -> float | None:
        if self.certified is not None:
            return drawn[choice.chosen].certified
        return drawn[choice.chosen].confidence if self.options.by == P_CORRECT else choice.share

    def _answers(
        self, question: Question, drawn: list[Candidate], choice: Choice | None, certainty: float | None
    ) -> bool:
        """Return whether the choice is an answer that is certain enough to be given."""
        if self.certified is not None:
            is_certain = self.certified.answers(certainty, question, len(drawn))
        elif self.options.abstain is None:
            return True
        else:
            is_certain = certainty is not None and certainty >= self.options.abstain
        if choice is None or not is_certain:
            return False
        chosen = drawn[choice.chosen]
        has_answer = chosen.answer is not None or chosen.is_code
        self.answerless += not has_answer
        return has_answer

    def _nothing_kept(self, question: Question) -> RecordError:
        others = ", ".join(name for name in CATALOGUE if name in self.other_scores)
        advice = f"--by one of {others}" if others else "run tokur score first, or --keep 100% --method maj"
        return RecordError(
            f"question {question.name}: no response has a finite {self.options.by}, so that none can be kept: {advice}",
            question.source,
            question.line,
        )

    def _count(
        self,
        question: Question,
        drawn: list[Candidate],
        classes: AnswerClasses,
        choice: Choice | None,
        correct: list[bool | None],
        answers: bool,
    ) -> None:
        if not question.references and not any(right is not None for right in correct):
            return
        self.unmarked += sum(
            right is False and response.is_unmarked for right, response in zip(correct, drawn, strict=True)
        )
        self.accuracy.add(correct, classes.labels, choice.chosen if choice else None, answers=answers)

    def _selected(self, record: Record, drawn: list[Candidate], choice: Choice) -> Record:
        """Return the chosen response's record, with what speaks for it and against it."""
        winner, *others = choice.classes
        tokur = record.tokur
        for name in ("select", "withheld", "certificate"):  # of earlier runs
            tokur.pop(name, None)
        record.set(
            "tokur",
            {
                "schema": SCHEMA,
                **tokur,
                "answer": drawn[winner.best].answer,
                "votes": winner.votes,
                "weight": winner.weight,
                "kept": len(choice.weights),
                "n": len(drawn),
                "runners_up": [
                    {"answer": drawn[other.best].answer, "votes": other.votes, "weight": other.weight}
                    for other in others
                ],
                "selection": self.settings,
            },
        )
        return record


def _with_certainty(record: Record, certainty: float | None, answers: bool) -> Record:
    """Return a selected record with how certain its answer is, and without the answer where that is too little."""
    tokur = {**record.tokur, "certainty": certainty}
    if not answers:
        tokur |= {"answer": None, "withheld": tokur["answer"]}
    record.set("tokur", tokur)
    return record


def _comes_back(record: Record) -> TokurError:
    where = str(record.error(f"question {record.id or 'of this prompt'} comes back after another one"))
    return TokurError(f"{where}: leave out --grouped")


def _correct(
    references: list[str], responses: list[Candidate], gathering: QuestionStore, labelling: Labeller
) -> list[bool | None]:
    """Return whether each response is right; None where that cannot be known."""
    compared = list(dict.fromkeys(response.answer for response in responses if response.awaits == "comparison"))
    outcomes = labelling.compare((answer, references) for answer in compared)
    right = {answer: outcome.correct for answer, outcome in zip(compared, outcomes, strict=True)}
    tested = [response for response in responses if response.awaits == "tests"]
    passed = dict(
        zip(
            (response.offset for response in tested),
            labelling.test([gathering.record(response) for response in tested]),
            strict=True,
        )
    )
    return [
        right[response.answer] if response.awaits == "comparison" else passed.get(response.offset, response.correct)
        for response in responses
    ]


def _verdicts(
    drawn: list[Candidate], classes: AnswerClasses, choice: Choice | None, answers: bool
) -> dict[int, dict[str, Any]]:
    """Return what became of the drawn responses, by where their text is."""
    names = [None if label is None else classes.representatives[label] for label in classes.labels]
    verdicts = [_verdict(response, drawn=True, name=name) for response, name in zip(drawn, names, strict=True)]
    if choice is not None:
        for rank, index in enumerate(choice.ranking, start=1):
            verdicts[index]["rank"] = rank
        for index, weight in choice.weights.items():
            verdicts[index] |= {"kept": True, "weight": weight}
        verdicts[choice.chosen]["chosen"] = answers
    return {response.offset: verdict for response, verdict in zip(drawn, verdicts, strict=True)}


def _verdict(response: Candidate, *, drawn: bool, name: str | None = None) -> dict[str, Any]:
    """Return what ``--records`` writes of a response before it is known whether it is kept or chosen."""
    return {
        "drawn": drawn,
        "kept": False,
        "weight": 0.0,
        "answer": response.answer,
        "class": name,
        "rank": None,
        "chosen": False,
    }
