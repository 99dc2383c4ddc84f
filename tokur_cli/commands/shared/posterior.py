"""The posterior that a command works with: made afresh, or read from the folder that ``tokur perturb`` wrote."""

from __future__ import annotations

import dataclasses

from tokur_cli.commands.options.scoring import DRAWS, RANK, SEED, SIGMA, PosteriorOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.posterior.folder import load_posterior
from tokur_cli.engine.posterior.posterior import Posterior, build_posterior
from tokur_cli.engine.posterior.projections import DEFAULT_TARGETS, count_layers
from tokur_cli.engine.uncertainty.perturbed import Draws


def make_posterior(
    options: PosteriorOptions, language_model: LanguageModel, progress: Progress
) -> tuple[Posterior, int]:
    """Return the posterior and M.

    Args:
        options: what it is made of, or where it is.
        language_model: the model.
        progress: told of work done, which layers are left out, if the user did not ask for that, and of a damaged
            basis in the cache.

    Raises:
        TokurError: this model cannot have such a posterior, the kept one is of other weights, or tokur would score it
            wrongly.
    """
    posterior, draws = _make_or_load(options, language_model, progress)
    model = language_model.model
    language_model.probe.check_scoring(Draws(posterior, 1))
    perturbed, layers = count_layers(model, posterior.matrices)
    if perturbed < layers and posterior.layers is None:
        progress.note(
            f"perturbs {perturbed} of {layers} layers: the others have no {posterior.targets.replace(',', ' or ')}"
        )
    return posterior, draws


def _make_or_load(
    options: PosteriorOptions, language_model: LanguageModel, progress: Progress
) -> tuple[Posterior, int]:
    if options.folder is not None:
        posterior, description = load_posterior(options.folder, language_model.model, language_model.name)
        return posterior, options.draws or description.draws
    assert options.strength != "auto"
    posterior = build_posterior(
        language_model.model,
        rank=RANK if options.rank is None else options.rank,
        sigma=SIGMA if options.strength is None else options.strength,
        targets=options.targets or DEFAULT_TARGETS,
        layers=options.layers,
        seed=SEED if options.seed is None else options.seed,
        cache=cache_folder() / "bases",
        progress=progress.say,
        note=progress.note,
    )
    return posterior, options.draws or DRAWS


def with_sigma(posterior: Posterior, sigma: float) -> Posterior:
    """Return the same posterior, with the same noise before scaling, of another strength."""
    return dataclasses.replace(posterior, sigma=sigma)
