"""The samples of a question, which stand together in the stream, as a set of texts (``--over samples``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tokur_cli.commands.baselines.features import ScoredResponse, TextSet
from tokur_cli.commands.baselines.questions import question_of
from tokur_cli.records.errors import RecordError
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.engine.text.tokens import ResponseTokenizer


def standing_together(items: Iterable[Record | RecordError | None]) -> Iterator[Record | RecordError | None]:
    """Yield the stream; a record whose question comes back after another one, or cannot be told, is an error."""
    done: set[str] = set()
    questions, current = Questions(), None
    for item in items:
        try:
            if isinstance(item, Record):
                key = questions.of(item).key
                if key != current and key in done:
                    raise item.error(
                        f"question {item.id or 'of this prompt'} comes back after another one: --over samples needs "
                        "the responses of a question next to each other"
                    )
                done.add(key)
                current = key
        except RecordError as error:
            item = error
        yield item


def question_key() -> Callable[[Record | RecordError], str | None]:
    """Return what tells the question of each item of a stream; that of an error is not known."""
    questions = Questions()
    return lambda item: questions.of(item).key if isinstance(item, Record) else None


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
