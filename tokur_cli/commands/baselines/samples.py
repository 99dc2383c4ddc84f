"""The samples of a question, which stand together in the stream, as a set of texts (``--over samples``)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokur_cli.commands.baselines.features import ScoredResponse, TextSet
from tokur_cli.commands.baselines.questions import question_of
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.question import Questions
from tokur_cli.records.record import WINDOW_BYTES, Record, size_of

if TYPE_CHECKING:
    from tokur_cli.engine.text.tokens import ResponseTokenizer


def standing_together(items: Iterable[Record | RecordError | None]) -> Iterator[Record | RecordError | None]:
    """Yield the stream; a record whose question comes back after another one, or cannot be told, is an error."""
    done: set[str] = set()
    questions, current = Questions(), None
    for item in items:
        try:
            key = questions.of(item).key if isinstance(item, Record) else current
        except RecordError as error:
            yield error
            continue
        if isinstance(item, Record) and key != current and key in done:
            yield item.error(
                f"question {item.id or 'of this prompt'} comes back after another one: --over samples needs the "
                "responses of a question next to each other"
            )
            continue
        if key is not None:
            done.add(key)
        current = key
        yield item


def windows_of_questions(
    items: Iterable[Record | RecordError | None], sizes: Iterator[int]
) -> Iterator[list[Record | RecordError]]:
    """Cut a stream into windows of at least these sizes, never between the responses of a question.

    Where their text is long, or the stream pauses or fails, the questions before the last one, of which samples may be
    missing, are a window too.
    """
    window: list[Record | RecordError] = []
    before = text = 0  # of these, what is before the last question, and the length of all their text
    size, current, questions = next(sizes), None, Questions()
    try:
        for item in items:
            key = questions.of(item).key if isinstance(item, Record) else current
            if key != current:
                before = len(window)
            if before >= size or (before and (text >= WINDOW_BYTES or item is None)):
                yield window[:before]
                window, before, size = window[before:], 0, next(sizes)
                text = sum(map(size_of, window))
            current = key
            if item is not None:
                window.append(item)
                text += size_of(item)
    except TokurError:
        if before:
            yield window[:before]
        raise
    if window:
        yield window


def by_question(responses: Iterable[ScoredResponse]) -> list[list[ScoredResponse]]:
    """Return the responses of each question; those of one stand together."""
    questions = Questions()
    return [list(group) for _, group in itertools.groupby(responses, lambda one: questions.of(one.record).key)]


def until_error(
    outcomes: Sequence[tuple[int, ScoredResponse | RecordError]],
) -> list[tuple[int, ScoredResponse | RecordError]]:
    """Return the outcomes up to the first error, without the responses right before it that may lack a sample.

    Their scores would be of fewer samples than the same responses have when the error is mended.
    """
    bad = next((place for place, (_, item) in enumerate(outcomes) if isinstance(item, RecordError)), None)
    if bad is None:
        return list(outcomes)
    complete = by_question(item for _, item in outcomes[:bad] if isinstance(item, ScoredResponse))
    kept = sum(map(len, complete[:-1]))
    return [*outcomes[:kept], outcomes[bad]]


def text_set(samples: Sequence[ScoredResponse], tokenizer: ResponseTokenizer) -> TextSet:
    """Return the set of a question's samples; how likely they are is known from their scoring."""
    question = question_of(samples[0].record, tokenizer)
    return TextSet(
        question=question,
        context=question,
        texts=[sample.record.response for sample in samples],
        tokens=[sample.located.tokens for sample in samples],
        log_probabilities=[sample.quantities["logprob"] for sample in samples],
    )
