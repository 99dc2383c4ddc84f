"""What weights in oneDNN's order gain: ``python -m tests.bench.reordered [--dtype bfloat16] [--rounds 3]``.

First all products with SmolLM2's weights, for few rows and for many; then the generation of ``tests.bench.generate``,
with the model as transformers loads it and as tokur does, in turn.
"""

import argparse
import copy
import statistics
import time
from dataclasses import replace

import torch
from torch import nn

from tests.bench.generate import read_prompts, refilled_batch
from tokur_cli.engine.loading.models import DEFAULT_MODEL, load_language_model
from tokur_cli.engine.loading.reordered import ReorderedLinear

ROWS = 1, 4, 13, 64, 256
REPEATS = 7


def usual(model):
    """A copy whose weights stand as transformers loads them."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, ReorderedLinear):
            weight = module.weight
            module.__class__ = nn.Linear
            module.weight = nn.Parameter(weight, requires_grad=False)
            del module.reordered
    return model


def milliseconds(work):
    """Median on the clock."""
    work()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


@torch.inference_mode()
def products(model, rows):
    """Milliseconds that all products of some rows with the weights of the layers take."""
    linear = [module for module in model.base_model.modules() if isinstance(module, nn.Linear)]
    inputs = {size: torch.randn(rows, size).to(model.dtype) for size in {module.in_features for module in linear}}
    return milliseconds(lambda: [module(inputs[module.in_features]) for module in linear])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("questions", 64), ("samples", 4), ("max-new-tokens", 256), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="bfloat16")
    arguments = parser.parse_args()
    ours = load_language_model(DEFAULT_MODEL, dtype=arguments.dtype, device_map="cpu")
    theirs = replace(ours, model=usual(ours.model))
    for rows in ROWS:
        before, since = (products(each.model, rows) for each in (theirs, ours))
        print(f"{rows:4} rows: products with weights {before:6.1f} ms, reordered {since:6.1f} ms: {since / before:.2f}")
    prompts = read_prompts(arguments.questions)
    for _ in range(arguments.rounds):
        speeds = []
        for each in (theirs, ours):
            began = time.perf_counter()
            tokens = refilled_batch(each, prompts, arguments.samples, arguments.max_new_tokens)
            speeds.append(tokens / (time.perf_counter() - began))
        before, since = speeds
        print(f"generation: {before:.0f} tokens/s, reordered {since:.0f}: {since / before:.2f} times as fast")


if __name__ == "__main__":
    main()
