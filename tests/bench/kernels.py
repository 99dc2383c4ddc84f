"""Kernels of a GPU, counted without one: ``python -m tests.bench.kernels``.

A model of Llama 3.1 8B's shapes on PyTorch's fake tensors; a layer is what two layers have beyond one. Launches alone
are reckoned at 5 µs a kernel and 32 layers. Then come the bytes that a scored batch's attention passes over, with
pages and where the kernel takes none, and those that element-wise operations pass.
"""

import numpy as np
import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from tests.engine.fake_gpu import DEVICE, fake_gpu, llama_8b, moved
from tokur_cli.engine.generation.paged import PagedCache
from tokur_cli.engine.posterior.posterior import build_posterior
from tokur_cli.engine.uncertainty import packing
from tokur_cli.engine.uncertainty.packing import PackedAttention
from tokur_cli.engine.uncertainty.perturbed import Draws
from tokur_cli.engine.uncertainty.scorer import Scorer, TokenizedResponse

LAYERS, LAUNCH = 32, 5e-6
BANDWIDTH = 3.35e12  # bytes a second of an H100
POSITIONS = 3 * 32 * 600  # 32 responses of 500 tokens to prompts of 100, under the mean weights and two draws
LENGTHS = [*range(180, 436, 8)]


def decoding(joins):
    """A step after these joins: (prompts' lengths, samples) each."""

    def run(model, operations):
        cache = PagedCache(model, None)
        for lengths, samples in joins:
            cache.join([[7] * length for length in lengths], [samples] * len(lengths))
        ids = torch.empty(sum(len(lengths) * samples for lengths, samples in joins), dtype=torch.long, device=DEVICE)
        cache.step(ids)  # which may make room
        operations.forget()
        cache.step(ids)

    return run


def scoring(responses):
    """A batch of these."""

    def run(model, operations):
        scorer = Scorer(model, Draws(build_posterior(model), 2), batch_tokens=2**16)
        list(scorer.score(responses))
        operations.forget()
        list(scorer.score(responses))

    return run


WORK = {
    "decoding, 64 samples of one question": decoding([([200], 64)]),
    "decoding, 64 questions": decoding([([*range(100, 228, 2)], 1)]),
    "decoding, 64 questions that joined 4 by 4": decoding([([*range(200, 204)], 1)] * 16),
    "scoring, 32 responses of 500 tokens": scoring([TokenizedResponse([n, *range(99)], [1] * 500) for n in range(32)]),
    "scoring, 32 of 180 to 428": scoring(
        [TokenizedResponse([n, *range(99)], [1] * length) for n, length in enumerate(LENGTHS)]
    ),
    "scoring, 4 samples of 8 questions": scoring(
        [TokenizedResponse([n // 4, *range(99)], [n % 4] + [1] * length) for n, length in enumerate(LENGTHS)]
    ),
}


RNG = np.random.default_rng(0)
HEADER, *QUESTIONS = (RNG.integers(9, 99_999, count).tolist() for count in (4000, *[600] * 8, *[100] * 200))
VARIED = RNG.integers(100, 900, 32).tolist()
ATTENDED = {
    "32 responses of 500 tokens to prompts of 100": [TokenizedResponse([n, *range(99)], [1] * 500) for n in range(32)],
    "32 of 100 to 900 tokens": [TokenizedResponse([n, *range(99)], [1] * length) for n, length in enumerate(VARIED)],
    "4 samples of 100 to 900 tokens to each of 8 questions of 600": [
        TokenizedResponse(QUESTIONS[n // 4], [n] * length) for n, length in enumerate(VARIED)
    ],
    "40 answers of 300 tokens to questions of 100 below a header of 4,000": [
        TokenizedResponse([*HEADER, *QUESTIONS[8 + n]], [n] * 300) for n in range(40)
    ],
    "200 answers of 2 tokens to such questions": [
        TokenizedResponse([*HEADER, *QUESTIONS[8 + n]], [n] * 2) for n in range(200)
    ],
}  # fmt: skip


def attention(responses, in_pages):
    """Kernels of a layer, and GB that its attention passes over."""
    with pytest.MonkeyPatch.context() as patch:
        if not in_pages:
            patch.setattr(packing, "has_pages", lambda *_: False)
        kernels, _ = counted(scoring(responses))
        passed, attend = [], PackedAttention.__call__

        def noted(self, *arguments, **options):
            before = operations.passed
            result = attend(self, *arguments, **options)
            passed.append(operations.passed - before)
            return result

        patch.setattr(PackedAttention, "__call__", noted)
        model = llama_8b(2)
        with fake_gpu(patch, (9, 0)) as operations, torch.inference_mode():
            scoring(responses)(moved(model, torch.bfloat16), operations)
    return kernels, sum(passed[1::2]) / 2 / 1e9  # of the second layer, in two passes over the batch


def counted(work):
    """Kernels of a layer, and those beside the layers."""
    found = []
    for layers in (1, 2):
        model = llama_8b(layers)
        with pytest.MonkeyPatch.context() as patch, fake_gpu(patch, (9, 0)) as operations, torch.inference_mode():
            work(moved(model, torch.bfloat16), operations)
            found.append(operations.kernels)
    return found[1] - found[0], 2 * found[0] - found[1]


def element_wise():
    """Kernels and GB of a layer's norms, rotary embedding and activation, and what one kernel each would pass."""
    model = llama_8b(1)
    layer, config = model.model.layers[0], model.config
    norm = layer.input_layernorm
    heads, key_heads, size = config.num_attention_heads, config.num_key_value_heads, layer.self_attn.head_dim
    with pytest.MonkeyPatch.context() as patch, fake_gpu(patch, (9, 0)) as operations, torch.inference_mode():
        moved(model, torch.bfloat16)
        made = {"dtype": torch.bfloat16, "device": DEVICE}
        states = torch.empty(1, POSITIONS, config.hidden_size, **made)
        wide = torch.empty(1, POSITIONS, config.intermediate_size, **made)
        query, key = (torch.empty(1, count, POSITIONS, size, **made) for count in (heads, key_heads))
        turn = torch.empty(1, POSITIONS, size, **made)
        parts = {
            "two norms and sums": (lambda: [norm(states + states) for _ in range(2)], 8 * states.nbytes),
            "rotary embedding": (
                lambda: apply_rotary_pos_emb(query, key, turn, turn),
                2 * (query.nbytes + key.nbytes + turn.nbytes),
            ),
            "activation": (lambda: layer.mlp.act_fn(wide) * wide, 3 * wide.nbytes),
        }  # fmt: skip
        for name, (run, needed) in parts.items():
            operations.forget()
            run()
            yield name, operations.kernels, operations.passed / 1e9, needed / 1e9


def main():
    print("| | kernels a layer | beside the layers | in all | launches alone |\n| --- | --- | --- | --- | --- |")
    for name, work in WORK.items():
        layer, beside = counted(work)
        every = LAYERS * layer + beside
        print(f"| {name} | {layer} | {beside:,} | {every:,} | {np.round(1e3 * LAUNCH * every, 1)} ms |", flush=True)
    print("\n| | kernels a layer | GB of attention | without pages: kernels | GB |\n| --- | --- | --- | --- | --- |")
    for name, responses in ATTENDED.items():
        found = (
            f"{kernels} | {passed:.1f}" for kernels, passed in (attention(responses, way) for way in (True, False))
        )
        print(f"| {name} | {' | '.join(found)} |", flush=True)
    print(f"\n| of {POSITIONS:,} positions, a layer | kernels | GB | in one kernel | saved in {LAYERS} layers |")
    print("| --- | --- | --- | --- | --- |")
    for name, kernels, passed, needed in element_wise():
        saved = LAYERS * (passed - needed) * 1e9 / BANDWIDTH
        print(f"| {name} | {kernels} | {passed:.1f} | {needed:.1f} | {1e3 * saved:.0f} ms |")


if __name__ == "__main__":
    main()
