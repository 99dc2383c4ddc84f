"""Generated tokens a second: tokur's batch that refills itself, beside what transformers and vLLM offer.

    python -m tests.bench.generate [--questions 64] [--samples 4] [--max-new-tokens 256] [--rounds 3] [--ways …]
        [--model FOLDER] [--quantize 4bit|8bit]

Every way samples N responses to each of the same prompts at temperature 0.8, with SmolLM2 or a model that
``tests.bench.shapes`` made, in the dtype of ``auto`` and a process of its own; rounds go in turn, and while one way
runs, the others are stopped: vLLM's takes a part of the processors while it waits. A useful token is one up to and
including the end of its response; padding after it counts for nobody. ``--ways`` takes ``vllm`` and ``vllm_compiled``,
too, in an environment that has it. Peak memory is the process's in its rounds, model and libraries included, where
Linux tells it.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from tokur_cli.commands.options.model import DecodingOptions, PromptOptions
from tokur_cli.commands.session.session import Session
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.engine.generation.decoder import DecodingRequest
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.generation.vllm import VllmDecoder
from tokur_cli.engine.loading.vllm import VllmResources
from tokur_cli.engine.model.embedded import DEFAULT_MODEL
from tokur_cli.engine.model.load import describe_model, load_language_model
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.tokens import ResponseTokenizer

SAMPLES = Path(__file__).parents[2] / "samples"
ROWS = 64
SAMPLING = Sampling(temperature=0.8)


def tokenizer(model):
    return ResponseTokenizer(model.tokenizer, model.context_length, model.end_ids)


def read_prompts(count):
    """Token ids of the prompts of the first sample questions."""
    with (SAMPLES / "responses.jsonl").open() as file:
        rows = [json.loads(line) for line in itertools.islice(file, count)]
    return [row["tokur"]["prompt_token_ids"] for row in rows]


def decode(decoder, prompts, samples):
    requests = [DecodingRequest(index, str(index), ids, range(samples)) for index, ids in enumerate(prompts)]
    return sum(len(response.token_ids) for response in decoder.serve(requests) if response is not None)


def refilled_batch(language_model, prompts, samples, limit):
    """tokur, with the batch that it chooses."""
    options = DecodingOptions(temperature=SAMPLING.temperature, seed=SAMPLING.seed, max_new_tokens=limit)
    decoder = Session(language_model, PromptForm(PromptOptions()), Progress("generate")).decoder(options)
    return decode(decoder, prompts, samples)


def vllm(decoder, prompts, samples, limit):
    """vLLM as ``generate --backend vllm`` runs it; nothing is left in its prefix cache from the round before."""
    decoder._engine.reset_prefix_cache()
    return decode(decoder, prompts, samples)


vllm_compiled = vllm


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


def load(way, limit, name, quantize):
    """What a way takes, kept in its process."""
    if way in ("vllm", "vllm_compiled"):
        from vllm import LLM

        if way == "vllm_compiled":
            sys.modules["vllm"].LLM = lambda **settings: LLM(**settings | {"enforce_eager": False})
        description = describe_model(ModelRequest(name, dtype="bfloat16"))
        loaded[way] = VllmDecoder(
            description,
            tokenizer(description).decode,
            SAMPLING,
            max_new_tokens=limit,
            resources=VllmResources(cache_bytes=4 << 30),
            tell=print,
        )
    elif way == "refilled_batch":
        loaded[way] = load_language_model(ModelRequest(name, quantize=quantize))
    else:  # as their users load it
        description = describe_model(ModelRequest(name))
        model = AutoModelForCausalLM.from_pretrained(description.place, dtype=description.dtype)
        loaded[way] = SimpleNamespace(model=model, tokenizer=description.tokenizer)
    memory = Path("/proc/self/clear_refs")
    if memory.exists():
        memory.write_text("5")  # the peak so far is forgotten


def measure(way, *arguments):
    """Return tokens a second and the peak memory in MB."""
    began = time.perf_counter()
    tokens = globals()[way](loaded[way], *arguments)
    speed = tokens / (time.perf_counter() - began)
    status = Path("/proc/self/status")
    peak = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else 0
    return speed, int(peak) / 1000


loaded = {}


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("questions", 64), ("samples", 4), ("max-new-tokens", 256), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ways", default="refilled_batch,padded_batches,continuous_batching")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--quantize", choices=("4bit", "8bit"), help="of refilled_batch")
    arguments = parser.parse_args()
    prompts = read_prompts(arguments.questions)
    limit = arguments.max_new_tokens
    results = {way: [] for way in arguments.ways.split(",")}
    context = multiprocessing.get_context("spawn")
    # Each with what it starts in a process group of its own
    processes = {way: ProcessPoolExecutor(1, mp_context=context, initializer=os.setpgrp) for way in results}
    groups = {way: process.submit(os.getpid).result() for way, process in processes.items()}

    def run(*running):
        for way, group in groups.items():
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGCONT if way in running else signal.SIGSTOP)

    for way, process in processes.items():
        process.submit(load, way, limit, arguments.model, arguments.quantize).result()
    for _ in range(arguments.rounds):
        for way, measured in results.items():
            run(way)
            try:
                measured.append(processes[way].submit(measure, way, prompts, arguments.samples, limit).result())
            except Exception as error:  # a way that does not run here is a result too
                print(f"{way}: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
                continue
            print(f"{way}: {measured[-1][0]:.0f} tokens/s", flush=True)
    run(*results)
    medians = {way: statistics.median(speed for speed, _ in measured) for way, measured in results.items() if measured}
    for name, median in medians.items():
        beside = f"{median / medians['padded_batches']:4.2f} × padded batches" if "padded_batches" in medians else ""
        peak = max(peak for _, peak in results[name])
        print(f"{name:20} {median:7.0f} tokens/s   peak memory {peak:5.0f} MB   {beside}")
    print(json.dumps({"threads": torch.get_num_threads(), **medians}))


if __name__ == "__main__":
    main()
