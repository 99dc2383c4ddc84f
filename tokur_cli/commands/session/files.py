"""A job done on files: what the commands that need a model do with their input and output."""

from __future__ import annotations

from functools import partial

from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.session.job import StreamJob
from tokur_cli.commands.shared.arrivals import as_they_come
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import describe
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import look_ahead, read_input, write_nothing
from tokur_cli.commands.workers.pool import open_pool
from tokur_cli.records.writer import open_output


def carry_out(
    job: StreamJob, source: InputOptions, workers: WorkerOptions, target: ResumableOutput, dry_run: int | None = None
) -> None:
    """Read records, have the job done by this process or by workers, and write what becomes of them.

    With ``dry_run``, so many records are done at most, and what all would take is told in place of results.
    """
    if dry_run is not None:
        from tokur_cli.commands.session.dry_run import reckon

        reckon(job, source, target, dry_run)
        return
    items, first = look_ahead(read_input(job.command, source), *job.needed, skip_invalid=source.skip_invalid)
    invalid = InvalidRecords(job.command, source.skip_invalid)
    if first is None:  # no model is loaded
        write_nothing(items, invalid, source, target)
        return
    job = job.choosing_model(first)
    # It is fetched and unpacked once, before all workers look for it; some jobs need to know it here, too
    known_here = not workers.in_process and (job.makes_prompts or workers.address is None)
    description = describe(job.model, Progress(job.command)) if known_here else None
    start = job.start if source.skip_invalid else partial(job.start, first=first)
    with Progress(job.command) as progress, open_pool(workers, job.model.device_map, start, progress) as pool:
        run = job.run(pool, progress, description)
        with open_output(
            target.path,
            force=target.force,
            resume=target.resume if job.resumable else None,
            standard_output=pool.standard_output,
            resuming=run.resuming,
        ) as writer:
            progress.start(partial(_count_outputs, job, source))
            coming = items if source.asked is not None else as_they_come(source.path, items, run.busy)
            for line in run.lines(coming, invalid, writer.already_written):
                writer.write_line(line)
            writer.finish()
        run.finish()
    invalid.finish()


def _count_outputs(job: StreamJob, source: InputOptions) -> int | None:
    """Return how many records there will be; None if that cannot be known."""
    lines = count_lines(source.path) if source.asked is None else 1
    return None if lines is None or job.outputs is None else lines * job.outputs
