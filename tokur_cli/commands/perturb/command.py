"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

from dataclasses import replace

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.perturb import CALIBRATION_RESPONSES, PerturbOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.session.model import choose_model, load, model_named
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.engine.posterior.settings import AUTO, PosteriorSettings, refuse_existing
from tokur_cli.records.errors import TokurError
from tokur_cli.records.writer import open_output

COMMAND = "perturb"


def perturb(
    model: ModelOptions,
    form: PromptForm,
    scoring: ScoringOptions,
    source: InputOptions,
    options: PerturbOptions,
    labels: LabelOptions,
) -> None:
    """Make a posterior, look at it or try strengths of it, and keep it where a folder is given.

    Standard output gets a record for each strength if strengths are tried, else one for each matrix.
    """
    if options.folder is not None:
        refuse_existing(options.folder)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    items, first = None, None
    if options.tries:
        items, first = look_ahead(read_input(COMMAND, source), "prompt", "response", skip_invalid=source.skip_invalid)
        if first is None:
            list(invalid.good(items))
            raise TokurError("the input has no response to try strengths on")
        if scoring.posterior.sigma == AUTO:  # the trials begin with the paper's
            scoring = replace(scoring, posterior=replace(scoring.posterior, sigma=str(PosteriorSettings.sigma)))
    chosen = choose_model(model, None if first is None else model_named(first))
    with Progress(COMMAND) as progress, open_output(None) as writer:
        loaded = load(chosen, progress)
        from tokur_cli.commands.perturb.making import PosteriorMaker
        from tokur_cli.commands.session.session import Session

        session = Session(loaded, form, progress, scoring.batch_tokens)
        maker = PosteriorMaker(session, scoring, writer)
        if items is not None:
            usual = CALIBRATION_RESPONSES if options.calibrate is not None and source.limit is None else None
            maker.read(items, usual, labels, invalid)
            if options.calibrate is not None:
                maker.calibrate(options.calibrate)
            else:
                maker.sweep(options.strengths)
        if options.folder is not None:
            maker.keep(options.folder)
        if items is None:  # last, since who reads it may go away
            maker.look()
    invalid.finish()
