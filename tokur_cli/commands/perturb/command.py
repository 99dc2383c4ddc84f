"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.scoring import PosteriorOptions, SamplingOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import chosen, describe, load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, model_named, read_input
from tokur_cli.commands.workers.pool import InProcess, workforce
from tokur_cli.engine.posterior.description import refuse_existing
from tokur_cli.records.errors import TokurError
from tokur_cli.records.writer import open_output

if TYPE_CHECKING:
    from tokur_cli.commands.perturb.strength import Trying
    from tokur_cli.commands.workers.worker import Note

COMMAND = "perturb"


def perturb(
    source: InputOptions | None,
    model: ModelOptions,
    prompts: PromptOptions,
    posterior_options: PosteriorOptions,
    strength: StrengthOptions,
    sampling: SamplingOptions,
    labels: LabelOptions,
    workers: WorkerOptions,
    keep: KeepOptions,
) -> None:
    """Make a posterior, look at it, and keep it where a folder is given.

    Standard output gets a record for each strength if strengths are tried, else one for each matrix.

    Args:
        source: responses to try strengths on; None where none is tried.
        model: the model.
        prompts: how questions became prompts.
        posterior_options: what the posterior is made of.
        strength: which strengths are tried.
        sampling: how draws and decoding steps go together while they are.
        labels: how it is known which responses are right.
        workers: who tries the strengths of a sweep.
        keep: where the posterior goes.

    Raises:
        TokurError: the model cannot have such a posterior, or whatever else stops the run.
    """
    if keep.folder is not None:
        refuse_existing(keep.folder, force=keep.force)
    form = PromptForm(prompts)  # a bad template is reported before a model is loaded
    invalid = InvalidRecords(COMMAND, source.skip_invalid if source else False)
    items = None
    if source is not None:
        items, first = look_ahead(read_input(COMMAND, source), "prompt", "response", skip_invalid=source.skip_invalid)
        if first is None:
            invalid.skip_all(items)
            raise TokurError("the input has no response to try strengths on")
        model = chosen(model, model_named(first))
    with Progress(COMMAND) as progress:
        if items is not None and strength.sweep is not None:
            make = partial(_make_trying, model, posterior_options, sampling)
            # Workers' responses are tokenized here; besides, the model is fetched once, before they all look for it
            found = None if workers.in_process else describe(model, None, progress)
            with (
                workforce(COMMAND, workers, model.device_map, make, progress) as force,
                open_output(None, standard_output=force.standard_output) as writer,
            ):
                from tokur_cli.commands.perturb.strength import read_trial, try_strengths, write_fields

                described = force.pipeline.language_model if isinstance(force, InProcess) else found
                assert described is not None
                trial = read_trial(items, form, described, strength.limit, labels, invalid)
                progress.start(len(strength.strengths) * len(trial.responses))
                for fields in try_strengths(trial, strength.strengths, force, progress):
                    write_fields(writer, fields)
        else:
            with open_output(None) as writer:
                language_model = load(model, None, progress)
                from tokur_cli.commands.perturb.making import Making

                making = Making(language_model, posterior_options, progress, writer)
                if items is None:
                    making.look()
                else:
                    making.calibrate(items, form, strength, sampling, labels, invalid)
                if keep.folder is not None:
                    making.keep(keep)
    invalid.finish()


def _make_trying(
    model: ModelOptions, posterior_options: PosteriorOptions, sampling: SamplingOptions, progress: Progress, note: Note
) -> Trying:
    language_model = load(model, None, progress)
    from tokur_cli.commands.perturb.strength import Trying
    from tokur_cli.commands.shared.posterior import make_posterior

    posterior, draws = make_posterior(posterior_options, language_model, progress, note)
    return Trying(language_model, posterior, draws, sampling)
