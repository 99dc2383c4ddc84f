"""Attention of a step of generation on a CPU: in C beside PyTorch's operations.

    python -m tests.bench.attention [--dtype bfloat16] [--rounds 9]

A layer's time in C, asking the prompts one response after the other or, shared, by a product of matrices, in parts of
the operations' time: medians of rounds in turn, over several layers, so that none is found in a processor's cache.
"""

import argparse
import statistics
import time

import numpy as np
import torch

from tests.tiny import tiny_model
from tokur_cli.engine.generation import paged
from tokur_cli.engine.generation.attention import attention_in_c

HEADS = ((3, 3, 64), (12, 1, 64), (8, 4, 128), (4, 2, 256))  # key heads, query heads to each, size
SHAPES = (  # prompts, responses to each, a prompt's tokens, a response's tokens
    (1, 1, 100, 100),
    (172, 1, 100, 40),
    (64, 4, 100, 100),
    (16, 16, 100, 20),
    (1, 64, 600, 20),
    (2, 32, 2000, 200),
)
LAYERS = 4
NEVER = 10**9
WAYS = {"operations": None, "one by one": NEVER, "shared": 0}  # from how many responses to a prompt on they share


def choose(way):
    """Make caches attend in one way."""
    if WAYS[way] is None:
        paged.attention_in_c = lambda query, key_heads: None
    else:
        paged.attention_in_c = attention_in_c
        paged._MANY, paged._LONG = WAYS[way], 0


def times(shape, heads, dtype, rounds):
    """Seconds of a layer by each way."""
    (questions, samples, prompt, own), (key_heads, group, size) = shape, heads
    rows = questions * samples

    def states(*lengths):
        return torch.randn(*lengths, size).to(dtype)

    prompts = {layer: (states(1, key_heads, prompt), states(1, key_heads, prompt)) for layer in range(LAYERS)}
    places = [np.arange(prompt - index * prompt // 5 // questions) for index in range(questions)]
    step = states(rows, key_heads * group, 1), states(rows, key_heads, 1), states(rows, key_heads, 1), None
    caches = {}

    def attend(cache):
        for layer in range(LAYERS):
            cache._attend(layer, *step)

    for way in WAYS:
        choose(way)
        cache = caches[way] = paged.PagedCache(tiny_model("llama"), None)  # of which nothing is used
        cache._append(places, [samples] * questions, prompts)
        for _ in range(own):
            cache._advance()
            attend(cache)
    seconds = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, cache in caches.items():
            choose(way)
            began = time.perf_counter()
            attend(cache)
            seconds[way].append((time.perf_counter() - began) / LAYERS)
    return {way: statistics.median(each) for way, each in seconds.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    for heads in HEADS:
        for shape in SHAPES:
            took = times(shape, heads, getattr(torch, arguments.dtype), arguments.rounds)
            parts = "  ".join(f"{way} {took[way] / took['operations']:.2f}" for way in list(WAYS)[1:])
            print(f"heads {heads}  {shape}  operations {took['operations'] * 1e6:.0f} µs  in C: {parts}", flush=True)


if __name__ == "__main__":
    main()
