"""How noisy estimates of a response's epistemic uncertainty are, how well they rank, and what they cost.

    python -m tests.bench.estimators [--responses 172] [--draws 16] [--sigma 0.1] [--layers FIRST:END] [--rounds 3]

For every response one set of forward passes under many draws; groups of M = 2, 4 and 8 of them stand for as many seeds.
Printed for each estimator and M: the median over responses of the relative standard deviation over seeds, the rank
correlation between seeds and with the mean of all draws, AUROC and AUPRC of the sum over tokens (mean and standard
deviation over seeds). Then the time that scoring takes, relative to the paper's estimator with M = 2; also where only
the upper half of the layers is perturbed.
"""

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.model import PromptOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.body import logits_from, run_body
from tokur_cli.engine.model.cache_dir import cache_folder
from tokur_cli.engine.model.embedded import DEFAULT_MODEL
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings
from tokur_cli.engine.scoring.scorer import Scorer
from tokur_cli.engine.uncertainty.distributions import Distributions, divergences, fisher_norms
from tokur_cli.engine.uncertainty.perturbed import Draws, perturbed
from tokur_cli.records.reader import read_records

SAMPLES = Path(__file__).parents[2] / "samples" / "responses.jsonl"
ESTIMATORS = ("paper", "kl", "fisher")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--responses", type=int, default=172)
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--sigma", type=float, default=0.1)
    parser.add_argument("--layers")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    language_model = load_language_model(ModelRequest(DEFAULT_MODEL))
    responses, labels = labelled_responses(language_model, options.responses)
    posterior = build_posterior(
        language_model.model,
        PosteriorSettings(sigma=options.sigma, layers=options.layers),
        cache=cache_folder() / "bases",
    )
    sums = {}
    draws = Draws(posterior, options.draws)
    for response in responses:
        for key, value in estimates(language_model.model, draws, response).items():
            sums.setdefault(key, []).append(value)
    rows = [*table({key: np.array(values) for key, values in sums.items()}, labels)]
    few = responses[:: max(1, len(responses) // 24)]
    for row in [*rows, *times(language_model.model, options.sigma, few, options.rounds)]:
        print(json.dumps({"layers": options.layers, "sigma": options.sigma, **row}))


def labelled_responses(language_model, count):
    with Labeller(LabelOptions(), InvalidRecords("evaluate", skip=False), answers=False) as labelling:
        labelled = list(labelling.good(read_records(str(SAMPLES))))[:count]
    session = Session(language_model, PromptForm(PromptOptions()), Progress("score"))
    responses = [session.tokenize(item.record).tokens for item in labelled]
    return responses, np.array([item.label for item in labelled])


@torch.inference_mode()
def estimates(model, draws, response):
    """(estimator, M) → EU of the response under each group of M draws."""
    ids = torch.from_numpy(response.input_ids)[None]
    steps = torch.from_numpy(response.steps(response.length))[None]
    with perturbed(draws, steps, int(steps.max()) + 1):
        outputs = run_body(model, input_ids=ids.repeat(1 + draws.members, 1), use_cache=False)
    hidden = outputs.last_hidden_state[:, len(response.prompt_ids) - 1 :]  # (1 + draws, T, d)
    results = {}
    with logits_from(model, outputs) as logits:
        for states in hidden.split(16, dim=1):
            found = logits(states.flatten(0, 1)[None])[0].unflatten(0, (1 + draws.members, -1))
            for key, value in block_estimates(Distributions(found), draws.members).items():
                results[key] = results.get(key, 0) + value
    return results


def block_estimates(distributions, members):
    """(estimator, M) → EU summed over a block of tokens, under each group of M draws."""
    entropies = distributions.entropies()[1:]
    each = {"kl": divergences(distributions), "fisher": fisher_norms(distributions) / 2}  # (members, n)
    results = {}
    for size in (2, 4, 8, members):

        def grouped(values, size=size):
            return values[: members // size * size].unflatten(0, (-1, size)).mean(1)

        mixture = grouped(distributions.p[1:])
        paper = torch.special.entr(mixture).sum(-1) - grouped(entropies)
        for name, values in {"paper": paper, **{name: grouped(values) for name, values in each.items()}}.items():
            results[name, size] = values.double().sum(-1).numpy()
    return results


def table(sums, labels):
    """A row for each estimator and M, from (responses, seeds) sums."""
    largest = max(size for _, size in sums)
    for (estimator, size), values in sums.items():
        seeds = range(values.shape[1])
        reference = sums[estimator, largest][:, 0]
        aurocs = [roc_auc_score(labels, -values[:, seed]) for seed in seeds]
        auprcs = [average_precision_score(labels, -values[:, seed]) for seed in seeds]
        pairs = [spearmanr(values[:, a], values[:, b]).statistic for a, b in itertools.combinations(seeds, 2)]
        spread = values.std(1, ddof=1) / values.mean(1) if len(seeds) > 1 else np.array([np.nan])
        yield {
            "estimator": estimator,
            "draws": size,
            "seeds": len(seeds),
            "relative_sd": float(np.median(spread)),
            "rank_between_seeds": float(np.mean(pairs)) if pairs else None,
            "rank_with_all": float(np.mean([spearmanr(values[:, seed], reference).statistic for seed in seeds])),
            "mean_share": float(np.median(values.mean(1) / sums["fisher", largest][:, 0])),
            "auroc": [float(np.mean(aurocs)), float(np.std(aurocs))],
            "auprc": [float(np.mean(auprcs)), float(np.std(auprcs))],
        }


def times(model, sigma, responses, rounds):
    """Processor seconds for the same responses, in rounds that interleave the ways; ratios to the paper's M = 2."""
    upper_half = f"{model.config.num_hidden_layers // 2}:"
    ways = [
        ("paper", None, 2, ()),
        ("paper", None, 2, ("eu_fisher",)),
        ("paper", None, 2, ("eu_kl", "eu_fisher")),
        ("kl", None, 2, ()),
        ("fisher", None, 2, ()),
        ("fisher", upper_half, 2, ()),
        ("fisher", upper_half, 4, ()),
    ]
    scorers = []
    for estimator, layers, members, beside in ways:
        posterior = build_posterior(
            model, PosteriorSettings(sigma=sigma, layers=layers), cache=cache_folder() / "bases"
        )
        draws = Draws(posterior, members)
        scorers.append(Scorer(model, draws, estimator=estimator, on_demand=beside, batch_tokens=4096))
    seconds = [[] for _ in ways]
    for turn in range(rounds + 1):
        for taken, scorer in zip(seconds, scorers, strict=True):
            begun = time.process_time()
            for _ in scorer.score(responses):
                pass
            if turn:  # the first round makes the noise
                taken.append(time.process_time() - begun)
    for (estimator, layers, members, beside), taken in zip(ways, seconds, strict=True):
        ratios = [mine / paper for mine, paper in zip(taken, seconds[0], strict=True)]
        yield {
            "estimator": estimator,
            "beside": beside,
            "draws": members,
            "layers": layers,
            "seconds": statistics.median(taken),
            "of_paper": statistics.median(ratios),
        }


if __name__ == "__main__":
    main()
