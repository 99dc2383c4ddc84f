"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.scoring import PosteriorOptions, SamplingOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, model_named, read_input
from tokur_cli.engine.posterior.description import refuse_existing
from tokur_cli.records.errors import TokurError
from tokur_cli.records.writer import open_output

COMMAND = "perturb"


def perturb(
    source: InputOptions | None,
    model: ModelOptions,
    prompts: PromptOptions,
    posterior_options: PosteriorOptions,
    strength: StrengthOptions,
    sampling: SamplingOptions,
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
        keep: where the posterior goes.

    Raises:
        TokurError: the model cannot have such a posterior, or whatever else stops the run.
    """
    if keep.folder is not None:
        refuse_existing(keep.folder, force=keep.force)
    form = PromptForm(prompts)  # a bad template is reported before a model is loaded
    invalid = InvalidRecords(COMMAND, source.skip_invalid if source else False)
    items, named = None, None
    if source is not None:
        items, first = look_ahead(read_input(source), "prompt", "response", skip_invalid=source.skip_invalid)
        if first is None:
            invalid.skip_all(items)
            raise TokurError("the input has no response to try strengths on")
        named = model_named(first)
    with Progress(COMMAND) as progress, open_output(None) as writer:
        language_model = load(model, named, progress)
        from tokur_cli.commands.perturb.making import Making

        making = Making(language_model, posterior_options, progress, writer)
        if items is None:
            making.look()
        else:
            making.tune(items, form, strength, sampling, invalid)
        if keep.folder is not None:
            making.keep(keep)
    invalid.finish()
