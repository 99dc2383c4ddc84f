"""Work done on files: what the commands that need a model do with their input and output, or would do."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from typing import Any

from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.session.model import describe
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.shared.windows import as_they_come
from tokur_cli.commands.workers.pool import open_pool
from tokur_cli.engine.model.place import this_machine
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats.logprobs import logged_logprobs
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.question import Questions
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import open_output


def run(source: InputOptions, target: ResumableOutput, workers: WorkerOptions, work: Work | None) -> None:
    """Read records, have them worked on by this process or by workers, and write what becomes of them.

    Only a dry run has no work: that of responses that came with their log-probabilities.
    """
    if work is None or target.dry_run:
        dry_run(source, work)
        return
    items, first = look_ahead(read_input(work.command, source), *work.needed, skip_invalid=source.skip_invalid)
    invalid = InvalidRecords(work.command, source.skip_invalid)
    if first is None:  # no model is loaded
        with open_output(target.path, force=target.force, resume=target.resume):
            list(invalid.good(items))
        invalid.finish(none_of=display_name(source.path))
        return
    work = work.with_model(first)
    session = None
    if not workers.in_process and (work.makes_prompts or workers.address is None):
        # It is fetched and unpacked once, before all workers look for it; some work needs to know it here, too
        quiet = Progress(work.command)
        session = work.session(describe(work.model, quiet), quiet)
    start = work.start if source.skip_invalid else partial(work.start, first=first)
    with Progress(work.command) as progress, open_pool(workers, work.model.device_map, start, progress) as pool:
        stream = work.stream(pool, progress, invalid, session)
        with open_output(
            target.path,
            force=target.force,
            resume=target.resume if work.resumable else None,
            standard_output=pool.standard_output,
            resuming=stream.resuming,
        ) as writer:
            progress.start(partial(_count_outputs, work, source))
            coming = items if source.asked is not None else as_they_come(source.path, items, lambda: stream.busy)
            for line in stream.lines(coming, writer.already_written):
                writer.write(line)
    invalid.finish()


def _count_outputs(work: Work, source: InputOptions) -> int | None:
    """Return how many records there will be; None if that cannot be known."""
    lines = count_lines(source.path, limit=source.limit) if source.asked is None else 1
    return None if lines is None or work.outputs is None else lines * work.outputs


def dry_run(source: InputOptions, work: Work | None) -> None:
    """Print how many records, bad ones, questions, references, tokens and batches a run would read.

    Raises:
        TokurError: the run would fail: there are bad records that are not skipped.
    """
    command, needed = ("score", ("response",)) if work is None else (work.command, work.needed)
    invalid = InvalidRecords(command, skip=True)
    items, first = look_ahead(read_input(command, source), *needed, skip_invalid=True)
    if first is None:
        list(invalid.good(items))
        _check_bad(source, invalid)
        invalid.finish(none_of=display_name(source.path))
        return
    session = None
    if work is not None:
        work, progress = work.with_model(first), Progress(command)
        session = work.session(describe(work.model, progress), progress)
    questions: set[object] = set()
    asked, references = Questions(), 0
    lengths: list[tuple[int, int]] = []  # tokens of prompt and response
    for item in invalid.good(items):
        question = None  # a log may not say it
        try:
            length = work.count_tokens(session, item) if work and session else (0, len(logged_logprobs(item)))
            with suppress(RecordError):  # of an id that stands for two, which only select and evaluate refuse
                question = asked.known(item)
            questions.add(item.line if question is None else question.key)
            references += item.reference is not None
            lengths.append(length)
        except RecordError as error:
            invalid.skip_or_raise(error)
    found: dict[str, Any] = {
        "records": len(lengths),
        "invalid": invalid.count,
        "questions": len(questions),
        "samples": len(lengths),
        "references": references,
        "prompt_tokens": sum(prompt for prompt, _ in lengths),
        "response_tokens": sum(response for _, response in lengths),
    }
    if work and session:
        device = "cuda" if this_machine()["GPU"] and work.model.device_map != "cpu" else "cpu"
        found |= {
            "model": session.description.name,
            "dtype": session.description.dtype,
            "samples": None if work.outputs is None else len(lengths) * work.outputs,
            "batches": work.count_batches([sum(length) for length in lengths], device),
        }
    with naming(STANDARD_OUTPUT):
        if sys.stdout.isatty():
            for name, value in found.items():
                print(f"{name.replace('_', ' '):<17}{value:,}" if isinstance(value, int) else f"{name:<17}{value}")
        else:
            print(encode_value(found).decode())
    _check_bad(source, invalid)
    invalid.finish()


def _check_bad(source: InputOptions, invalid: InvalidRecords) -> None:
    if invalid.count and not source.skip_invalid:
        raise TokurError("a run stops at the first bad record: fix them, or use --skip-invalid")
