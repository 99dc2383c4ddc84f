"""``--dry-run``: what a run would read, counted before it is begun; no weights are loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.session.model import describe
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.engine.model.place import count_gpus
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name


class Counting(NamedTuple):
    """What counts: what is said of the model, a record's tokens of prompt and response, the batches of such lengths."""

    described: dict[str, Any]
    tokens: Callable[[Record], tuple[int, int]]
    batches: Callable[[Sequence[int]], int | None]


def dry_run(source: InputOptions, work: Work) -> None:
    """Print what a run would read: every record is tokenized, and all bad ones are reported.

    Raises:
        TokurError: the run would fail: there are bad records that are not skipped.
    """

    def opened(first: Record) -> Counting:
        chosen, progress = work.with_model(first), Progress(work.command)
        session = chosen.session(describe(chosen.model, progress), progress)
        device = "cuda" if count_gpus() and chosen.model.device_map != "cpu" else "cpu"
        batch_tokens = chosen.scoring.batch_tokens or default_batch_tokens(device)
        return Counting(
            {"model": session.description.name, "dtype": session.description.dtype},
            lambda record: chosen.count_tokens(session, record),
            lambda lengths: chosen.count_batches(lengths, batch_tokens),
        )

    count_records(source, work.command, work.needed, opened, samples=work.outputs)


def count_records(
    source: InputOptions,
    command: str,
    needed: tuple[str, ...],
    opened: Callable[[Record], Counting],
    *,
    samples: int | None = 1,
) -> None:
    """Print how many records, bad ones, questions, references, tokens and batches an input has.

    Args:
        source: the input.
        command: name for messages.
        needed: what a good record has, as the names of its attributes.
        opened: from the first good record to what counts.
        samples: records that each one becomes; None where that is not known before.
    """
    invalid = InvalidRecords(command, skip=True)
    items, first = look_ahead(read_input(command, source), *needed, skip_invalid=True)
    if first is None:
        list(invalid.good(items))
        invalid.finish(none_of=display_name(source.path))
        return
    counting = opened(first)
    questions: set[object] = set()
    asked, references = Questions(), 0
    lengths: list[tuple[int, int]] = []
    for item in items:
        try:
            if isinstance(item, RecordError):
                raise item
            length = counting.tokens(item)
            question = asked.known(item)  # a log may not say it
            questions.add(item.line if question is None else question.key)
            references += item.reference is not None
            lengths.append(length)
        except RecordError as error:
            invalid.skip_or_raise(error)
    found = {
        **counting.described,
        "records": len(lengths),
        "invalid": invalid.count,
        "questions": len(questions),
        "samples": None if samples is None else len(lengths) * samples,
        "references": references,
        "prompt_tokens": sum(prompt for prompt, _ in lengths),
        "response_tokens": sum(response for _, response in lengths),
        "batches": counting.batches([sum(length) for length in lengths]),
    }
    with naming(STANDARD_OUTPUT):
        if sys.stdout.isatty():
            for name, value in found.items():
                print(f"{name.replace('_', ' '):<17}{value:,}" if isinstance(value, int) else f"{name:<17}{value}")
        else:
            print(encode_value(found).decode())
    if invalid.count and not source.skip_invalid:
        raise TokurError("a run stops at the first bad record: fix them, or use --skip-invalid")
    invalid.finish()
