"""Work done on files: what the commands that need a model do with their input and output."""

from __future__ import annotations

from functools import partial

from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.session.dry_run import dry_run
from tokur_cli.commands.session.model import describe
from tokur_cli.commands.session.work import Work
from tokur_cli.commands.shared.arrivals import as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.workers.pool import open_pool
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
        with open_output(target.path, force=target.force, resume=target.resume) as writer:
            list(invalid.good(items))
            writer.finish()
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
                writer.write_line(line)
            writer.finish()
    invalid.finish()


def _count_outputs(work: Work, source: InputOptions) -> int | None:
    """Return how many records there will be; None if that cannot be known."""
    lines = count_lines(source.path) if source.asked is None else 1
    return None if lines is None or work.outputs is None else lines * work.outputs
