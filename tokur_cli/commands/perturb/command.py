"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.session.job import Job
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.engine.posterior.description import refuse_existing
from tokur_cli.records.errors import TokurError
from tokur_cli.records.writer import open_output


@dataclass(frozen=True)
class PerturbJob(Job):
    """A posterior is made, and strengths of it are tried."""

    command: ClassVar[str] = "perturb"
    needed: ClassVar[tuple[str, ...]] = ("prompt", "response")


def perturb(
    job: PerturbJob, source: InputOptions | None, strength: StrengthOptions, labels: LabelOptions, keep: KeepOptions
) -> None:
    """Make a posterior, look at it or try strengths of it, and keep it where a folder is given.

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
    with Progress(job.command) as progress, open_output(None) as writer:
        session = job.session(load(job.model, progress), progress)
        from tokur_cli.commands.perturb.making import PosteriorMaker
        from tokur_cli.commands.perturb.strength import read_trial

        maker = PosteriorMaker(session, job.scoring, writer)
        if items is None:
            maker.look()
        else:
            trial = read_trial(items, session, strength.most_responses, labels, invalid)
            if strength.calibrate is not None:
                maker.calibrate(trial, strength.calibrate)
            else:
                maker.sweep(trial, strength.strengths)
        if keep.folder is not None:
            maker.keep(keep.folder, force=keep.force)
    invalid.finish()
