"""``tokur perturb``: the posterior as a thing to look at, keep, tune and serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.perturb import KeepOptions, StrengthOptions
from tokur_cli.commands.options.scoring import PosteriorOptions, SamplingOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.perturb.strength import CALIBRATION_RESPONSES, Strengths, read_trial
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.model import load
from tokur_cli.commands.shared.posterior import SIGMA, make_posterior, with_sigma
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import peek, read_input
from tokur_cli.engine.posterior.calibration import SWEEPS, largest_sigma
from tokur_cli.engine.posterior.folder import keep_posterior, refuse_existing
from tokur_cli.engine.posterior.posterior import Posterior, size_of
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.record import Record
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
    with Progress(COMMAND) as progress, open_output(None) as writer:

        def write(fields: dict[str, Any]) -> None:
            writer.write(Record.parse(encode_value(fields), None, None))

        if source is None:
            language_model = load(model, None, progress)
            posterior, draws = make_posterior(posterior_options, language_model, progress, partial(say, COMMAND))
            for fields in describe_matrices(posterior):
                write(fields)
            calibration = None
        else:
            items, named = peek(read_input(source))
            language_model = load(model, named, progress)
            posterior, draws = make_posterior(posterior_options, language_model, progress, partial(say, COMMAND))
            limit = strength.limit or (CALIBRATION_RESPONSES if strength.calibrate else None)
            trial = read_trial(items, form, language_model, limit, invalid)
            strengths = Strengths(trial, posterior, draws, language_model, sampling, progress)
            progress.start((SWEEPS if strength.calibrate else len(strength.strengths)) * len(trial.responses))
            calibration = _try(strengths, strength, write)
        if keep.folder is not None:
            if calibration is not None:
                posterior = with_sigma(posterior, calibration["sigma"])
            keep_posterior(
                keep.folder,
                language_model.model,
                posterior,
                draws=draws,
                model_name=language_model.name,
                revision=language_model.revision,
                calibration=calibration,
                force=keep.force,
            )
            say(
                COMMAND, f"{keep.folder}: wrote the posterior (σ = {posterior.sigma:.4g}) and {draws} draws as adapters"
            )
    invalid.finish()


def _try(
    strengths: Strengths, options: StrengthOptions, write: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | None:
    """Try strengths, writing a record of each; return what ``posterior.json`` keeps of a calibration."""
    if not options.calibrate:
        for sigma in options.strengths:
            write(strengths.measure(sigma))
        return None
    tried: dict[float, dict[str, Any]] = {}

    def divergence(sigma: float) -> float:
        tried[sigma] = strengths.measure(sigma)
        write(tried[sigma])
        return float(tried[sigma]["kl"])

    sigma = largest_sigma(divergence, options.tolerance, start=strengths.posterior.sigma or SIGMA)
    kl = tried[sigma]["kl"]
    say(COMMAND, f"σ = {sigma:.4g}: the draws are {kl:.4g} nats per token from the model")
    return {"tolerance": options.tolerance, "sweeps": len(tried), **tried[sigma]}


def describe_matrices(posterior: Posterior) -> Iterator[dict[str, Any]]:
    """Yield a record for each perturbed matrix: its shape, top singular values, and how large ΔW is beside it."""
    for matrix in posterior.matrices:
        singular_values, norm = size_of(matrix)
        expected = posterior.sigma * _mean_norm(matrix.inputs * posterior.rank)
        yield {
            "matrix": matrix.name,
            "shape": [matrix.basis.shape[0], matrix.inputs],
            "singular_values": singular_values,
            "norm": norm,
            "perturbation_norm": expected,
            "relative_size": expected / norm if norm else math.inf,
        }


def _mean_norm(entries: int) -> float:
    """Return the mean Euclidean norm of as many N(0, 1) numbers: √2 Γ((n + 1)/2) / Γ(n/2)."""
    return math.sqrt(2) * math.exp(math.lgamma((entries + 1) / 2) - math.lgamma(entries / 2))
