"""The posterior that a command works with: made afresh, or read from the folder that ``tokur perturb`` wrote."""

from __future__ import annotations

import dataclasses

from tokur_cli.commands.options.scoring import PosteriorOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.posterior.folder import load_posterior
from tokur_cli.engine.posterior.posterior import Posterior, build_posterior
from tokur_cli.engine.posterior.projections import count_layers
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
    model = language_model.model
    if options.folder is not None:
        posterior = load_posterior(options.folder, model, language_model.name)
    else:
        cache = cache_folder() / "bases"
        posterior = build_posterior(model, options.settings, cache=cache, progress=progress.say, note=progress.note)
    language_model.probe.check_scoring(Draws(posterior, 1))
    perturbed, layers = count_layers(model, posterior.matrices)
    if perturbed < layers and posterior.layers is None:
        wanted = posterior.targets.replace(",", " or ")
        progress.note(f"perturbs {perturbed} of {layers} layers: the others have no {wanted}")
    return posterior, options.members


def with_sigma(posterior: Posterior, sigma: float) -> Posterior:
    """Return the same posterior, with the same noise before scaling, of another strength."""
    return dataclasses.replace(posterior, sigma=sigma)
