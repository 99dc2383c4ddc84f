"""Both backends of ``generate`` beside each other: tokens a second, seconds to load, and whether they write the same.

    python -m tests.bench.backends [--questions 32] [--max-new-tokens 128] [--rounds 3] [--dtype float32]

Greedy responses of SmolLM2 to the sample questions. vLLM's prefix cache is emptied before each round.
"""

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import torch

from tokur_cli.commands.options.model import DecodingOptions, PromptOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.generation.decoder import DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.models import DEFAULT_MODEL, describe_model, load_language_model
from tokur_cli.engine.loading.vllm import VllmResources
from tokur_cli.engine.tokens import ResponseTokenizer

SAMPLES = Path(__file__).parents[2] / "samples"


def transformers_decoder(dtype, limit):
    language_model = load_language_model(DEFAULT_MODEL, dtype=dtype)
    session = Session(language_model, PromptForm(PromptOptions()), Progress("generate"))
    return session.decoder(DecodingOptions(max_new_tokens=limit)), lambda: None


def vllm_decoder(dtype, limit):
    description = describe_model(DEFAULT_MODEL, dtype=dtype)
    tok = ResponseTokenizer(description.tokenizer, description.context_length)
    resources = VllmResources(cache_bytes=1 << 30)
    decoder = VllmDecoder(description, tok.decode, Sampling(), max_new_tokens=limit, resources=resources, tell=print)
    return decoder, decoder._engine.reset_prefix_cache


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("questions", 32), ("max-new-tokens", 128), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    with (SAMPLES / "responses.jsonl").open() as file:
        rows = [json.loads(line) for line in itertools.islice(file, arguments.questions)]
    requests = [
        DecodingRequest(index, row["id"], row["tokur"]["prompt_token_ids"], range(1)) for index, row in enumerate(rows)
    ]
    written = {}
    for make in (transformers_decoder, vllm_decoder):
        began = time.perf_counter()
        decoder, forget = make(arguments.dtype, arguments.max_new_tokens)
        loading, speeds = time.perf_counter() - began, []
        for _ in range(arguments.rounds):
            forget()
            began = time.perf_counter()
            responses = {response.index: response.token_ids for response in decoder.serve(requests)}
            speeds.append(sum(map(len, responses.values())) / (time.perf_counter() - began))
        written[make.__name__] = responses
        each = ", ".join(f"{speed:.0f}" for speed in speeds)
        median = statistics.median(speeds)
        print(f"{make.__name__:22} {median:6.0f} tokens/s (rounds: {each}), loaded in {loading:.1f} s", flush=True)
    ours, theirs = written.values()
    same = [ours[index] == theirs[index] for index in ours]
    print(f"{sum(same)} of {len(same)} responses have the same token ids; {torch.get_num_threads()} threads")
    for index in itertools.compress(ours, (not equal for equal in same)):
        place = next(n for n, (a, b) in enumerate(itertools.zip_longest(ours[index], theirs[index])) if a != b)
        print(f"  {rows[index]['id']}: they part at token {place + 1} of {len(ours[index])}")


if __name__ == "__main__":
    main()
