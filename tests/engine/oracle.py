"""Brute force in float64: weights really perturbed, one forward pass a draw, whole logits."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from transformers import DynamicCache

from tokur_cli.engine.forward.body import cache_argument


def reference_quantities(
    base: torch.Tensor, draws: list[torch.Tensor], targets: list[int], joint: bool = False, estimator: str = "paper"
):
    """Quantities from log-probabilities written out token by token: base (T, V), draws M × (T, V), float64."""
    rows = []
    features = np.zeros(len(draws))
    for t, target in enumerate(targets):
        p0 = base[t].exp().numpy()
        log0 = base[t].numpy()
        row = {
            "logprob": log0[target],
            "entropy": -np.sum(p0 * log0),
            "self_certainty": np.sum((1 / len(p0)) * (np.log(1 / len(p0)) - log0)),
            "deepconf": -np.mean(np.sort(log0)[-20:]),
        }
        if draws:
            weights = np.exp(features - features.max()) if joint else np.ones(len(draws))
            weights = weights / weights.sum()
            members = [draw[t].exp().numpy() for draw in draws]
            mixture = sum(w * p for w, p in zip(weights, members, strict=True))
            row["tu"] = -np.sum(mixture * np.log(mixture))
            row["au"] = -sum(w * np.sum(p * np.log(p)) for w, p in zip(weights, members, strict=True))
            row["eu"] = row["tu"] - row["au"]
            if estimator == "kl":
                row["eu"] = sum(w * np.sum(p0 * np.log(p0 / p)) for w, p in zip(weights, members, strict=True))
            if estimator == "fisher":
                fisher = np.diag(p0) - np.outer(p0, p0)
                changes = [draw[t].numpy() - log0 for draw in draws]  # log p is z up to a constant, which F ignores
                row["eu"] = sum(w * (c @ fisher @ c) / 2 for w, c in zip(weights, changes, strict=True))
            row["tu"] = row["au"] + row["eu"]
            features += np.array([draw[t][target].item() for draw in draws])
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def log_probabilities(model, prompt: list[int], response: list[int]) -> torch.Tensor:
    """Log p(· | prompt, y_<t) of every response token, one plain forward pass: (T, V) float64."""
    ids = torch.tensor([prompt + response])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0].double()
    return logits[len(prompt) - 1 : -1].log_softmax(-1)


def scored(model, posterior, response, sampling: str, num_draws: int, estimator: str = "paper"):
    """Quantities (T,) of a response, by name, under the mean weights and the first draws of a posterior."""
    prompt, ids = response.prompt_ids, response.response_ids
    if sampling == "stepwise":
        draws = [
            stepwise_log_probabilities(model, posterior, m, prompt, ids, same_projected_noise(posterior, m))
            for m in range(num_draws)
        ]
    else:
        draws = [log_probabilities(fixed_draw(model, posterior, m), prompt, ids) for m in range(num_draws)]
    base = log_probabilities(copy.deepcopy(model).double(), prompt, ids)
    return reference_quantities(base, draws, ids, sampling == "joint", estimator)


def perturb(module, matrix, original: torch.Tensor, delta: torch.Tensor) -> None:
    """Write W_0 + ΔW (out × in) into the matrix's rows of the module's weight."""
    transposed = type(module).__name__ == "Conv1D"
    weight, original = (module.weight.T, original.T) if transposed else (module.weight, original)
    rows = slice(None) if matrix.rows is None else matrix.rows
    with torch.no_grad():
        weight[rows] = original[rows] + delta


def module_of(model, matrix):
    """The module of the matrix in a copy of the model."""
    return model.get_submodule(matrix.module_name)


def fixed_draw(model, posterior, member: int):
    """A float64 copy of the model with W_0 + U′εᵀ written into it, into a shared weight once for each of its places."""
    drawn = copy.deepcopy(model).double()
    own = {module_of(drawn, matrix): None for matrix in posterior.matrices}
    for module in own:
        module.weight = torch.nn.Parameter(module.weight.detach().clone(), requires_grad=False)
    for matrix in posterior.matrices:
        module = module_of(drawn, matrix)
        epsilon = posterior.weight_noise(matrix, member).double()
        perturb(module, matrix, module.weight, matrix.basis.double() @ epsilon.T)
    return drawn


def stepwise_log_probabilities(
    model, posterior, member: int, prompt: list[int], response: list[int], step_epsilon: Callable
) -> torch.Tensor:
    """Decode with a key/value cache: the prompt under the member's draw, each response token under a fresh ε.

    Args:
        step_epsilon: (matrix, step, x) → ε (in, r') for the one input x (in,) of that matrix at that step.
    """
    fresh = copy.deepcopy(model).double()
    step = 0
    for matrix in posterior.matrices:
        module = module_of(fresh, matrix)
        original = module.weight.detach().clone()

        def before(module, arguments, matrix=matrix, original=original):
            epsilon = step_epsilon(matrix, step, arguments[0][0, 0])
            perturb(module, matrix, original, matrix.basis.double() @ epsilon.T)

        module.register_forward_pre_hook(before)
    with torch.no_grad():
        cache = cache_argument(model, DynamicCache())
        outputs = fixed_draw(model, posterior, member)(input_ids=torch.tensor([prompt]), use_cache=True, **cache)
        rows = [outputs.logits[0, -1]]
        for step, token in enumerate(response[:-1]):  # noqa: B007 (the hooks read it)
            outputs = fresh(input_ids=torch.tensor([[token]]), use_cache=True, **cache)
            rows.append(outputs.logits[0, -1])
    return torch.stack(rows).log_softmax(-1)


def same_projected_noise(posterior, member: int) -> Callable:
    """The ε whose εᵀx is the engine's σ‖x‖ξ at each step: x(σξ)ᵀ/‖x‖."""
    return lambda matrix, step, x: (
        posterior.sigma * torch.outer(x / x.norm(), posterior.step_noise(matrix, member, step + 1)[step].double())
    )
