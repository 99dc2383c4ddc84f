"""Generated tokens a second: tokur's batch that refills itself, beside what transformers offers.

    python -m tests.bench.generate [--questions 64] [--samples 4] [--max-new-tokens 256] [--rounds 3] [--ways …]

Every way samples N responses to each of the same prompts at temperature 0.8 with SmolLM2 in the dtype of ``auto``.
A useful token is one up to and including the end of its response; padding after it counts for nobody.
"""

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path

import torch
from transformers import GenerationConfig

from tokur_cli.engine.generation.decoder import Decoder, DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.loading.models import load_language_model
from tokur_cli.engine.tokens import ResponseTokenizer

SAMPLES = Path(__file__).parents[2] / "samples"
ROWS = 64


def refilled_batch(language_model, prompts, samples, limit):
    """tokur."""
    tok = ResponseTokenizer(language_model.tokenizer, language_model.context_length, language_model.end_ids)
    decoder = Decoder(
        language_model.model,
        tok.decode,
        Sampling(temperature=0.8),
        end_ids=frozenset(language_model.end_ids),
        max_new_tokens=limit,
        context_length=language_model.context_length,
        max_rows=ROWS,
    )
    requests = [DecodingRequest(index, str(index), ids, range(samples)) for index, ids in enumerate(prompts)]
    return sum(len(response.token_ids) for response in decoder.run(requests))


def padded_batches(language_model, prompts, samples, limit):
    """model.generate over left-padded batches of 64 rows."""
    model, end = language_model.model, language_model.tokenizer.eos_token_id
    total = 0
    per_batch = max(1, ROWS // samples)
    for first in range(0, len(prompts), per_batch):
        batch = prompts[first : first + per_batch]
        width = max(map(len, batch))
        ids = torch.tensor([[end] * (width - len(p)) + list(p) for p in batch])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in batch])
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids, attention_mask=mask, do_sample=True, temperature=0.8, top_k=0, top_p=1.0,
                max_new_tokens=limit, num_return_sequences=samples, pad_token_id=end,
            )[:, width:]  # fmt: skip
        for row in out.tolist():
            total += row.index(end) + 1 if end in row else len(row)
    return total


def continuous_batching(language_model, prompts, samples, limit):
    """transformers' generate_batch; every sample is a request of its own."""
    config = GenerationConfig(
        do_sample=True, temperature=0.8, top_k=0, top_p=1.0, max_new_tokens=limit,
        eos_token_id=language_model.tokenizer.eos_token_id, pad_token_id=language_model.tokenizer.eos_token_id,
    )  # fmt: skip
    inputs = [list(prompt) for prompt in prompts for _ in range(samples)]
    results = language_model.model.generate_batch(inputs=inputs, generation_config=config, progress_bar=False)
    if len(results) < len(inputs):
        raise RuntimeError(f"only {len(results)} of {len(inputs)} responses came back")
    return sum(len(result.generated_tokens) for result in results.values())


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("questions", 64), ("samples", 4), ("max-new-tokens", 256), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ways", default="refilled_batch,padded_batches,continuous_batching")
    arguments = parser.parse_args()
    with (SAMPLES / "responses.jsonl").open() as file:
        rows = [json.loads(line) for line in itertools.islice(file, arguments.questions)]
    prompts = [row["tokur"]["prompt_token_ids"] for row in rows]
    language_model = load_language_model("smollm2-135m-instruct")
    speeds = {globals()[name]: [] for name in arguments.ways.split(",")}
    for _ in range(arguments.rounds):
        for way, speed in speeds.items():
            began = time.perf_counter()
            try:
                tokens = way(language_model, prompts, arguments.samples, arguments.max_new_tokens)
            except Exception as error:  # a way that does not run here is a result too
                print(f"{way.__name__}: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
                continue
            speed.append(tokens / (time.perf_counter() - began))
            print(f"{way.__name__}: {speed[-1]:.0f} tokens/s", flush=True)
    medians = {way.__name__: statistics.median(speed) for way, speed in speeds.items() if speed}
    for name, median in medians.items():
        beside = f"   {median / medians['padded_batches']:4.2f} × padded batches" if "padded_batches" in medians else ""
        print(f"{name:20} {median:7.0f} tokens/s{beside}")
    print(json.dumps({"dtype": language_model.dtype, "threads": torch.get_num_threads(), **medians}))


if __name__ == "__main__":
    main()
