"""A kept posterior beside the other options, checked before a model is loaded."""

from __future__ import annotations

from tokur_cli.commands.options.scoring import PosteriorOptions
from tokur_cli.engine.posterior.description import read_description
from tokur_cli.records.errors import UsageError


def check_posterior_options(options: PosteriorOptions) -> str | None:
    """Refuse options that cannot go together, before a model is loaded.

    Returns:
        The model that a kept posterior is of; None without one.

    Raises:
        UsageError: the options contradict the kept posterior, or ask for what only one can tell.
        TokurError: the kept posterior cannot be read.
    """
    if options.folder is None:
        if options.sigma == "auto":
            raise UsageError(
                "--sigma auto is the σ that a posterior was calibrated to: make one with "
                "`tokur perturb --calibrate RESPONSES -o DIR` and give it as --posterior DIR"
            )
        return None
    names = ("rank", "sigma", "targets", "layers", "seed")
    given = [name for name in names if getattr(options, name) not in (None, "auto")]
    if given:
        raise UsageError(f"--{given[0]} is fixed by --posterior {options.folder}: leave one of the two out")
    description = read_description(options.folder)
    if options.sigma == "auto" and description.calibration is None:
        raise UsageError(
            f"--sigma auto: the posterior in {options.folder} has σ = {description.sigma:g} because it was given so; "
            "`tokur perturb --calibrate` finds one"
        )
    return description.model
