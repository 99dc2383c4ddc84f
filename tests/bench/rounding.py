"""How far bfloat16 leads from float32, beside the plain version.

    python -m tests.bench.rounding [--responses 24] [--seeds 10]

Both ways use the same draws (sampling ``shared``); the truth is tokur in float32. A few tokens make most of the error
of epistemic uncertainty, and which way they strike harder is chance that changes with the draws. Hence several seeds,
and intervals for the ratios from resampled seeds and responses.
"""

import argparse
import json

import numpy as np

from tests.bench.plain import PlainScorer
from tests.bench.score import DRAWS, Tokur, samples
from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.posterior.settings import PosteriorSettings

QUANTITIES = ("logprob", "entropy", "au", "eu")
RESAMPLES = 2000


def scores(model, responses, seed, way="tokur"):
    posterior = build_posterior(model, PosteriorSettings(seed=seed), cache=cache_folder() / "bases")
    if way == "plain":
        return PlainScorer(model, posterior, DRAWS).score(responses)
    return Tokur(model, posterior, "shared", default_batch_tokens("cpu")).score(responses)


def errors(exact, rough):
    """(responses, quantities, 2) sums of the squared and of the absolute errors of a response's tokens."""
    gaps = [[r[name] - e[name] for name in QUANTITIES] for e, r in zip(exact, rough, strict=True)]
    return np.array([[((gap**2).sum(), abs(gap).sum()) for gap in each] for each in gaps])


def per_token(sums, tokens):
    """(quantities, 2) root mean square and mean error, from (seeds, responses, quantities, 2) sums."""
    means = sums.sum((0, 1)) / (len(sums) * tokens.sum())
    return np.stack([np.sqrt(means[:, 0]), means[:, 1]], axis=1)


def intervals(ours, theirs, tokens):
    """(2, quantities, 2): 95 % intervals of the ratios of the errors of two ways."""
    numbers = np.random.default_rng(0)
    ratios = []
    for _ in range(RESAMPLES):
        seeds, responses = (numbers.integers(size, size=size) for size in ours.shape[:2])
        both = (per_token(way[np.ix_(seeds, responses)], tokens[responses]) for way in (ours, theirs))
        ratios.append(np.divide(*both))
    return np.quantile(ratios, (0.025, 0.975), axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    load, responses = samples(arguments.responses)
    tokens = np.array([len(response.response_ids) for response in responses])
    exact_model, model = load("float32", "cpu"), load("bfloat16", "cpu")
    sums = {"tokur": [], "plain": []}
    for seed in range(arguments.seeds):
        exact = scores(exact_model, responses, seed)
        for way, each in sums.items():
            each.append(errors(exact, scores(model, responses, seed, way)))
    ours, theirs = (np.array(each) for each in sums.values())
    found = {way: per_token(np.array(each), tokens) for way, each in sums.items()}
    ratios, (low, high) = found["tokur"] / found["plain"], intervals(ours, theirs, tokens)
    print(f"{len(responses)} responses, {tokens.sum()} tokens, {arguments.seeds} seeds; tokur, plain, ratio [95 %]")
    rows = {}
    for q, name in enumerate(QUANTITIES):
        for k, kind in enumerate(("root mean square", "mean")):
            row = [round(float(x[q, k]), 6) for x in (found["tokur"], found["plain"], ratios, low, high)]
            rows[f"{name}, {kind}"] = dict(zip(("tokur", "plain", "ratio", "low", "high"), row, strict=True))
            print(f"{name:8} {kind:17} {row[0]:.5f} {row[1]:.5f}   {row[2]:.3f} [{row[3]:.3f}, {row[4]:.3f}]")
    print(json.dumps({"responses": len(responses), "seeds": arguments.seeds, "errors": rows}))


if __name__ == "__main__":
    main()
