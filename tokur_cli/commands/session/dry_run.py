"""``--dry-run``: what a run would read, counted before it is begun; no weights are loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.session.model import describe
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name

Count = Callable[[Record], tuple[int, int]]
"""The tokens of a record's prompt and of its response."""


def dry_run(source: InputOptions, work: Work) -> None:
    """Print what a run would read: every record is tokenized, and all bad ones are reported.

    Raises:
        TokurError: the run would fail: there are bad records that are not skipped.
    """

    def opened(first: Record) -> tuple[dict[str, Any], Count]:
        chosen, progress = work.with_model(first), Progress(work.command)
        session = chosen.session(describe(chosen.model, progress), progress)
        described = {"model": session.description.name, "dtype": session.description.dtype}
        return described, lambda record: chosen.count_tokens(session, record)

    count_records(source, work.command, work.needed, opened, samples=work.outputs)


def count_records(
    source: InputOptions,
    command: str,
    needed: tuple[str, ...],
    opened: Callable[[Record], tuple[dict[str, Any], Count]],
    *,
    samples: int | None = 1,
) -> None:
    """Print how many records, bad ones, questions, references and tokens an input has.

    Args:
        source: the input.
        command: name for messages.
        needed: what a good record has, as the names of its attributes.
        opened: from the first good record to what is told of the model, and what counts tokens.
        samples: records that each one becomes; None where that is not known before.
    """
    invalid = InvalidRecords(command, skip=True)
    items, first = look_ahead(read_input(command, source), *needed, skip_invalid=True)
    if first is None:
        list(invalid.good(items))
        invalid.finish(none_of=display_name(source.path))
        return
    described, count = opened(first)
    asked, questions = Questions(), set()
    records = references = prompt = response = 0
    for item in items:
        try:
            if isinstance(item, RecordError):
                raise item
            of_prompt, of_response = count(item)
            questions.add(id(asked.of(item)))
            references += item.reference is not None
        except RecordError as error:
            invalid.skip_or_raise(error)
            continue
        records, prompt, response = records + 1, prompt + of_prompt, response + of_response
    told = {
        **described,
        "records": records,
        "invalid": invalid.count,
        "questions": len(questions),
        "samples": None if samples is None else records * samples,
        "references": references,
        "prompt_tokens": prompt,
        "response_tokens": response,
    }
    with naming(STANDARD_OUTPUT):
        if sys.stdout.isatty():
            for name, value in told.items():
                print(f"{name.replace('_', ' '):<17}{value:,}" if isinstance(value, int) else f"{name:<17}{value}")
        else:
            print(encode_value(told).decode())
    if invalid.count and not source.skip_invalid:
        raise TokurError("a run stops at the first bad record: fix them, or use --skip-invalid")
    invalid.finish()
