"""How far a response's epistemic uncertainty depends on what it is scored with: rounding alone.

    python -m tests.bench.neighbours [--responses 48] [--dtypes bfloat16,float32]

Samples are scored alone, in the file's order and in the reverse order, under the same draws. For each pair of these the
root mean square and the largest of the differences of their sums, relative to the mean of both.
"""

import argparse
import itertools
import json

import numpy as np

from tests.bench.score import Tokur, read_rows, responses_of
from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.engine.loading.cache import cache_folder
from tokur_cli.engine.loading.models import DEFAULT_MODEL, load_language_model
from tokur_cli.engine.posterior.posterior import build_posterior

FILES = ("responses.jsonl", "responses_n16.jsonl")


def sums(scorer, responses):
    """The sum over tokens of each response's epistemic uncertainty, by how they are scored."""
    ways = {
        "alone": [scorer.score([response])[0] for response in responses],
        "file": scorer.score(responses),
        "reversed": scorer.score(responses[::-1])[::-1],
    }
    return {way: np.array([float(result["eu"].sum()) for result in results]) for way, results in ways.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=48)
    parser.add_argument("--dtypes", default="bfloat16,float32")
    options = parser.parse_args()
    for dtype in options.dtypes.split(","):
        model = load_language_model(DEFAULT_MODEL, dtype=dtype, device_map="cpu").model
        scorer = Tokur(
            model, build_posterior(model, cache=cache_folder() / "bases"), "stepwise", default_batch_tokens("cpu")
        )
        for name in FILES:
            found = sums(scorer, responses_of(read_rows(name, options.responses)))
            for one, other in itertools.combinations(found, 2):
                gaps = 2 * np.abs(found[one] - found[other]) / (found[one] + found[other])
                row = {"dtype": dtype, "file": name, "responses": len(gaps), "ways": [one, other]}
                print(json.dumps({**row, "rms": np.sqrt(np.mean(gaps**2)), "largest": gaps.max()}), flush=True)


if __name__ == "__main__":
    main()
