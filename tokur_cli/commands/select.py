"""``tokur select``: N scored responses per question in, the best answer of each question out."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tokur_cli import __version__
from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import UNLABELLED, Labelled, grade, is_code
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.select import SelectOptions, parse_keep
from tokur_cli.commands.options.streams import InputOptions, RecordOutput
from tokur_cli.commands.shared.certified import CertifiedAnswers
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import Labeller, unmarked_note
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.errors import RecordError, TokurError, count_of
from tokur_cli.records.outputs import STANDARD_OUTPUT, writing_whole
from tokur_cli.records.question import Question, Questions
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.records.writer import RecordWriter
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, score_named
from tokur_cli.scores.certificate import read_certificate
from tokur_cli.selection.gathering import Candidate, QuestionStore, without_duplicates
from tokur_cli.selection.summary import InputWarnings, SelectionAccuracy
from tokur_cli.selection.voting import Choice, Rule, choose

COMMAND = "select"
_OF_SELECTION = ("select", "answer", "votes", "weight", "kept", "n", "runners_up", "selection", "certainty", "withheld")


def select(source: InputOptions, options: SelectOptions, labels: LabelOptions, target: RecordOutput) -> None:
    """Choose an answer to each question.

    Without ``grouped`` nothing is written before the whole input is read, so a bad record ends the command without any
    output; with it, all questions before the bad record's are written, unless to a file, which is written whole.
    """
    certified = None
    if options.certificate is not None:
        certified = CertifiedAnswers(read_certificate(options.certificate), options.certificate)
        options = certified.as_labelled(options)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    items = read_input(COMMAND, source, is_labelled=labels.label_field is not None)
    with (
        Progress(COMMAND) as progress,
        writing_whole(target.path or STDIN) as file,
        QuestionStore(whole=options.records) as gathering,
        Labeller(labels, invalid, is_strict=False) as labelling,
    ):
        writer = RecordWriter(file.buffer, target.path or STANDARD_OUTPUT)
        selection = _Selection(options, certified, gathering, labelling, writer, invalid)
        progress.start(lambda: count_lines(source.path, limit=source.limit))
        for item in invalid.good(items):
            progress.advance(1)
            selection.take(item)
        selection.finish()
    for line in selection.messages():
        say(COMMAND, line)
    invalid.finish(none_of=None if selection.taken else display_name(source.path))


class _Selection:
    """One run: records into questions, questions into choices."""

    def __init__(
        self,
        options: SelectOptions,
        certified: CertifiedAnswers | None,
        gathering: QuestionStore,
        labelling: Labeller,
        writer: RecordWriter,
        invalid: InvalidRecords,
    ) -> None:
        self.gathering, self.labelling, self.writer, self.invalid = gathering, labelling, writer, invalid
        by = score_named(options.by, "--by")
        self.options, self.certified = replace(options, by=by.name), certified
        self.rule = Rule(options.method, parse_keep(options.keep), options.weight)
        self.sign = by.sign
        self.settings = {
            "by": by.name,
            "keep": float(self.rule.keep.fraction),
            "keep_at_least": self.rule.keep.minimum if self.rule.keep.minimum > 1 else None,
            "method": options.method,
            "weight": options.weight if options.method == "wbon" else None,
            "abstain": options.abstain,
            **({} if certified is None else {"certificate": certified.certificate.digest}),
            "version": __version__,
        }
        self.accuracy = SelectionAccuracy(abstains=options.abstains)
        self.questions = self.answered = self.unmarked = self.taken = 0
        self.unjudged: Counter[str] = Counter()
        judged = options.abstain is not None and by.name == P_CORRECT
        self.notes = InputWarnings(by.name, needs_score=self.rule.needs_score or judged)
        self.asked = Questions()
        self._done: set[str] = set()  # questions that were grouped

    def take(self, item: Record) -> None:
        """Take a record; where those of a question stand together, write what is chosen of the one before."""
        try:
            question = self.asked.of(item)
            if self.options.grouped and question.key not in self.gathering.questions:
                self.finish()
                self._done.update(self.gathering.questions)
                self.gathering.clear()
                if question.key in self._done:
                    where = str(item.error(f"question {item.id or 'of this prompt'} comes back after another one"))
                    raise TokurError(f"{where}: leave out --grouped")
            labelled = self.labelling.take(item)
            if isinstance(labelled, RecordError):
                raise labelled
            self._gather(question, labelled)
            self.taken += 1
        except RecordError as error:
            self.invalid.skip_or_raise(error)

    def messages(self) -> Iterator[str]:
        """Yield the messages for the end, the summary last."""
        if merged := self.asked.merged():
            yield merged
        yield from self.notes.lines()
        if self.certified is not None:
            yield from self.certified.notes()
        for outcome in (Outcome.CODE_NOT_RUN, Outcome.RULE_NOT_USED):
            if count := self.unjudged[outcome]:
                yield f"not judged: {count_of(count, 'response')} {UNLABELLED[outcome]}"
        if self.unmarked:
            yield unmarked_note(self.unmarked)
        mean = f"{self.options.by}_mean"
        if mean in CATALOGUE and self.rule.needs_score and self.certified is None:
            yield f"{self.options.by} adds up over tokens and favours short responses; the paper selects by {mean}"
        if self.options.abstains and self.questions:
            share = f"{self.answered / self.questions:.2%}"
            counts = f"{self.answered:,} of {self.questions:,} questions ({share})"
            others = ", without a sure answer to the others" if self.answered < self.questions else ""
            yield f"answered {counts}{others}"
        if summary := self.accuracy.summary():
            yield summary

    def _gather(self, question: Question, labelled: Labelled) -> None:
        record = labelled.record
        if is_code(record) and self.rule.method != "bon":
            method = self.rule.method
            raise record.error(f"is code, and {method} counts equal answers, of which code has none: give --method bon")
        self.unjudged[labelled.outcome] += labelled.awaits is None
        confidence, certified = self._score(record, self.options.by), None
        if self.certified is not None:
            self.certified.check(record)
            certified = self._score(record, self.certified.certificate.score)
        response = Candidate(
            None if labelled.answer is None else sys.intern(labelled.answer),  # most answers come many times
            None if confidence is None else self.sign * confidence,
            certified=certified,
            is_unmarked=labelled.is_unmarked,
            is_code=is_code(record),
            correct=labelled.correct,
            awaits=labelled.awaits,
        )
        self.gathering.add(question, record, response)

    def _score(self, record: Record, name: str) -> float | None:
        return record.number(f'"tokur.scores.{name}"', record.scores.get(name))

    def finish(self) -> None:
        """Choose for the gathered questions, and write."""
        gathering = self.gathering
        verdicts: dict[int, dict[str, Any]] = {}
        withheld: dict[int, bool] = {}  # of chosen responses
        everything: list[Candidate] = []  # but for questions that are refused
        for question, responses in gathering.questions.values():
            drawn, duplicates = without_duplicates(responses)
            classes = answer_classes([response.answer for response in drawn], self.labelling.equivalence)
            choice = choose([response.confidence for response in drawn], classes, self.rule)
            self.notes.look_at(question.name, drawn, duplicates, choice)
            try:
                certainty, answers = self._certainty(question, drawn, choice)
            except RecordError as error:
                self.invalid.skip_or_raise(error)
                continue
            everything += responses
            self.questions, self.answered = self.questions + 1, self.answered + answers
            correct = self._correct(question.references, drawn)
            pairs = zip(correct, drawn, strict=True)
            self.unmarked += sum(label is False and response.is_unmarked for label, response in pairs)
            self.accuracy.add(correct, classes, choice.chosen if choice else None, answers=answers)
            if choice is None:
                self.invalid.skip_or_raise(self._nothing_kept(question))
            if self.options.records:
                verdicts |= _verdicts(drawn, classes, choice, answers)
                if choice is not None and self.options.abstains:
                    withheld[drawn[choice.chosen].offset] = not answers
            elif choice is not None:
                record = gathering.record(drawn[choice.chosen])
                record.set("tokur", self._selected(record, drawn, choice, certainty, answers))
                self.writer.write(record.encode())
        for response in sorted(everything, key=lambda one: one.offset) if self.options.records else ():
            record = gathering.record(response)
            earlier = _OF_SELECTION if "selection" in record.tokur else ("withheld",)
            tokur = {name: value for name, value in record.tokur.items() if name not in earlier}
            if response.offset in withheld:
                tokur["withheld"] = withheld[response.offset]
            verdict = verdicts.get(response.offset) or _verdict(response, drawn=False)
            record.set("tokur", {"schema": SCHEMA, **tokur, "select": verdict})
            self.writer.write(record.encode())

    def _correct(self, references: list[str], responses: list[Candidate]) -> list[bool | None]:
        """Return whether each response is correct; None where that cannot be known."""
        compared = list(dict.fromkeys(response.answer for response in responses if response.awaits == "comparison"))
        outcomes = grade(((answer, references) for answer in compared), self.labelling.equivalence)
        correct = {answer: outcome.correct for answer, outcome in zip(compared, outcomes, strict=True)}
        tested = [response for response in responses if response.awaits == "tests"]
        results = self.labelling.test([self.gathering.record(response) for response in tested])
        passed = {response.offset: result for response, result in zip(tested, results, strict=True)}
        return [
            correct[one.answer] if one.awaits == "comparison" else passed.get(one.offset, one.correct)
            for one in responses
        ]

    def _certainty(
        self, question: Question, drawn: list[Candidate], choice: Choice | None
    ) -> tuple[float | None, bool]:
        """Return how certain the choice is, and whether it is an answer that is certain enough to be given."""
        if choice is None:
            return None, False
        chosen = drawn[choice.chosen]
        if self.certified is not None:
            certainty = chosen.certified
            is_certain = self.certified.answers(certainty, question, len(drawn))
        else:
            certainty = chosen.confidence if self.options.by == P_CORRECT else choice.share
            if self.options.abstain is None:
                return certainty, True
            is_certain = certainty is not None and certainty >= self.options.abstain
        return certainty, is_certain and (chosen.answer is not None or chosen.is_code)

    def _nothing_kept(self, question: Question) -> RecordError:
        return RecordError(
            f"question {question.name}: no response has a finite {self.options.by}, so that none can be kept: --by "
            "another score, run tokur score first, or --keep 100% --method maj",
            question.source,
            question.line,
        )

    def _selected(
        self, record: Record, drawn: list[Candidate], choice: Choice, certainty: float | None, answers: bool
    ) -> dict[str, Any]:
        """Return what the chosen response's record has under ``tokur``, with what speaks for it and against it."""
        winner, *others = choice.classes
        answer = drawn[winner.best].answer
        tokur = {
            "schema": SCHEMA,
            **{name: value for name, value in record.tokur.items() if name not in _OF_SELECTION},
            "answer": answer,
            "votes": winner.votes,
            "weight": winner.weight,
            "kept": len(choice.weights),
            "n": len(drawn),
            "runners_up": [
                {"answer": drawn[other.best].answer, "votes": other.votes, "weight": other.weight} for other in others
            ],
            "selection": self.settings,
        }
        if not self.options.abstains:
            return tokur
        return {**tokur, "certainty": certainty} | ({} if answers else {"answer": None, "withheld": answer})


def _verdicts(
    drawn: list[Candidate], classes: list[str | None], choice: Choice | None, answers: bool
) -> dict[int, dict[str, Any]]:
    """Return what became of the drawn responses, by where their text is."""
    verdicts = [_verdict(response, drawn=True) for response in drawn]
    for verdict, label in zip(verdicts, classes, strict=True):
        verdict["class"] = label
    if choice is not None:
        for rank, index in enumerate(choice.ranking, start=1):
            verdicts[index]["rank"] = rank
        for index, weight in choice.weights.items():
            verdicts[index] |= {"kept": True, "weight": weight}
        verdicts[choice.chosen]["chosen"] = answers
    return {response.offset: verdict for response, verdict in zip(drawn, verdicts, strict=True)}


def _verdict(response: Candidate, *, drawn: bool) -> dict[str, Any]:
    """Return what ``--records`` writes of a response before it is known whether it is kept or chosen."""
    unknown = {"class": None, "rank": None, "chosen": False}
    return {"drawn": drawn, "kept": False, "weight": 0.0, "answer": response.answer, **unknown}
