"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.session.job import Job, session_of
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import describe, load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.workers.pool import open_pool
from tokur_cli.engine.posterior.description import refuse_existing
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import open_output

if TYPE_CHECKING:
    from tokur_cli.commands.perturb.strength import StrengthTester
    from tokur_cli.commands.session.session import Session


@dataclass(frozen=True)
class PerturbJob(Job):
    """A posterior is made, and strengths of it are tried."""

    command: ClassVar[str] = "perturb"
    needed: ClassVar[tuple[str, ...]] = ("prompt", "response")

    def pipeline(self, session: Session) -> StrengthTester:  # noqa: D102
        from tokur_cli.commands.perturb.strength import StrengthTester

        return StrengthTester(session, session.draws(self.scoring.posterior), self.scoring.sampling)


def perturb(
    job: PerturbJob,
    source: InputOptions | None,
    strength: StrengthOptions,
    labels: LabelOptions,
    workers: WorkerOptions,
    keep: KeepOptions,
) -> None:
    """Make a posterior, look at it, and keep it where a folder is given.

    Standard output gets a record for each strength if strengths are tried, else one for each matrix.
    """
    if keep.folder is not None:
        refuse_existing(keep.folder, force=keep.force)
    invalid = InvalidRecords(job.command, source.skip_invalid if source else False)
    items, first = None, None
    if source is not None:
        items, first = look_ahead(read_input(job.command, source), *job.needed, skip_invalid=source.skip_invalid)
        if first is None:
            list(invalid.good(items))
            raise TokurError("the input has no response to try strengths on")
    job = job.choosing_model(first)
    if items is not None and strength.sweep is not None:
        _sweep(job, items, strength, labels, workers, invalid)
    else:
        _make(job, items, strength, labels, keep, invalid)
    invalid.finish()


def _sweep(
    job: PerturbJob,
    items: Iterator[Record | RecordError],
    strength: StrengthOptions,
    labels: LabelOptions,
    workers: WorkerOptions,
    invalid: InvalidRecords,
) -> None:
    """Try strengths one after the other, or by workers."""
    with Progress(job.command) as progress:
        # Workers' responses are tokenized here; besides, the model is fetched once, before they all look for it
        found = None if workers.in_process else describe(job.model, progress)
        with (
            open_pool(workers, job.model.device_map, job.start, progress) as pool,
            open_output(None, standard_output=pool.standard_output) as writer,
        ):
            from tokur_cli.commands.perturb.strength import read_trial, try_strengths, write_fields

            session = job.session(found, progress) if found else session_of(pool)
            trial = read_trial(items, session, strength.limit, labels, invalid)
            progress.start(lambda: len(strength.strengths) * len(trial.responses))
            for fields in try_strengths(trial, strength.strengths, pool, progress):
                write_fields(writer, fields)


def _make(
    job: PerturbJob,
    items: Iterator[Record | RecordError] | None,
    strength: StrengthOptions,
    labels: LabelOptions,
    keep: KeepOptions,
    invalid: InvalidRecords,
) -> None:
    """Make the posterior, calibrate it on responses if there are any, and keep it."""
    with Progress(job.command) as progress, open_output(None) as writer:
        session = job.session(load(job.model, progress), progress)
        from tokur_cli.commands.perturb.making import PosteriorMaker

        maker = PosteriorMaker(session, job.scoring.posterior, writer)
        if items is None:
            maker.look()
        else:
            maker.calibrate(items, strength, job.scoring.sampling, labels, invalid)
        if keep.folder is not None:
            maker.keep(keep)
