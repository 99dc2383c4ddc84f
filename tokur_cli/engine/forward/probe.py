"""Whether tokur's own way through a model leads to the model's own numbers, checked before a model is used.

A family that tokur's way (``body``, ``prefix_tree``, ``hooks``, ``generation.cache``) does not suit would give numbers
that are incorrect without a word. So a few tokens are put through the model as it is, alone and in the batch that is
about to be computed, by transformers' own means and with weights that hold a draw; then through tokur's way. The two
batches have the same shapes, so that they are rounded alike, and an incorrect way is seen in low precision too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tokur_cli.engine.forward.batching import pad, refusing
from tokur_cli.engine.forward.body import cache_argument, empty_cache, input_device, logits_from, watch
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.generation.cache import KVCache
from tokur_cli.engine.model.linear import is_quantised
from tokur_cli.engine.posterior.posterior import PerturbedMatrix, Posterior
from tokur_cli.engine.scoring.scorer import Scorer, TokenizedResponse, identity_of
from tokur_cli.records.errors import TokurError

_TEXT = "The sum of 3 and 4 is 7, so the answer is 7."
_INSTEAD = {
    "scoring": "use a model of another family",
    "scoring by vLLM": "leave --backend vllm out",
    "generation": "use a model of another family, or --backend vllm; tokur score takes responses of any program",
}
_DIFFERS = "tokur's own forward pass differs from the model's"
_PROMPT, _RESPONSE = 8, 12  # tokens
_BESIDE = 2  # tokens by which the response beside it is longer
_STEPS = 4  # tokens that are generated
_TRIES = 4  # of a draw's strength,
_LOUDER = 4  # of which the first is so many times the posterior's,
_LOUD = 0.5  # and the others would move tokens by so many nats


@dataclass(frozen=True)
class Probe:
    """A few tokens and what a model, run as it is, makes of them."""

    name: str  # of the model, for messages
    model: PreTrainedModel
    tokens: TokenizedResponse  # the probe's
    beside: TokenizedResponse  # a longer response to the same prompt, but for its last token
    # (T, V) float32 log-probabilities of what follows each position that predicts one of its response tokens
    log_p: Tensor

    @torch.inference_mode()
    def check_scoring(self, posterior: Posterior | None) -> None:
        """Score the probe's tokens beside others, under a draw too or under the mean weights alone.

        In bfloat16, rounding moves the numbers of a deep model as far as the paper's draws do. The draw is therefore
        stronger than the posterior's, and where rounding may still hide it, stronger or weaker ones are tried.

        Raises:
            TokurError: the numbers are not the model's, or under a draw not those of weights that hold it.
        """
        sigma = posterior.sigma * _LOUDER if posterior else 0.0
        for _ in range(_TRIES):
            draws = Draws(replace(posterior, sigma=sigma), 1) if posterior else None
            (base, *drawn), ours = self._both_ways(draws)
            own = distance(self.log_p, base)
            self._require("scoring", "its batches differ from its single texts", own, tolerance(self._dtype))
            self._require("scoring", _DIFFERS, distance(base, ours[0]), max(own / 2, rounding(self._dtype)))
            if not drawn:
                return
            moved, off = distance(base, drawn[0]), distance(drawn[0], ours[1])
            if off <= (allowed := max(2 * own, rounding(self._dtype), moved / 4)):
                return
            sigma *= min(max(_LOUD / max(moved, 1e-9), 1 / 16), 16)
        self._require("scoring", f"under a draw, {_DIFFERS}", off, allowed)

    def _both_ways(self, draws: Draws | None) -> tuple[list[Tensor], list[Tensor]]:
        """Return what predicts the probe's tokens, (T, V) of the mean weights and each draw, by transformers and us."""
        batch = [self.beside, self.tokens]
        with refusing(lambda why: refusal(self.name, self.model, "scoring", f"scoring fails ({why})")):
            scorer = Scorer(self.model, draws, sampling="shared", min_saving=1)
            ((_, path),) = scorer.batches(batch)
            states, outputs = scorer.states(batch, path)
            with logits_from(self.model, outputs) as logits:
                ours = [logits(rows[None, -_RESPONSE:])[0].float().log_softmax(-1) for rows in states]
            return self._by_transformers(batch, path[-1].last if path else 0, draws), ours

    def _by_transformers(self, batch: Sequence[TokenizedResponse], first: int, draws: Draws | None) -> list[Tensor]:
        """Return (T, V) of a batch's last response by the model's own passes and cache, with each draw in the weights.

        What they begin with, ``first`` positions, has a pass of its own.
        """
        num_rows = 1 + (draws.num_draws if draws else 0)
        ids = pad([one.identity >> 32 for one in batch], input_device(self.model))
        options: dict[str, Any] = {"use_cache": False}
        with _merged(draws.posterior, num_rows) if draws else nullcontext():
            if first:
                cache = empty_cache(self.model)
                options = {"use_cache": True, **cache_argument(self.model, cache)}
                self.model(input_ids=ids[:1, :first].repeat(num_rows, 1), **options)
                cache.batch_repeat_interleave(len(batch))
            logits: Tensor = self.model(input_ids=ids[:, first:].repeat(num_rows, 1), **options).logits
        begin = self.tokens.prompt_end - first
        own = logits.unflatten(0, (num_rows, -1))[:, -1, begin : begin + _RESPONSE]
        return [rows.float().log_softmax(-1) for rows in own]

    @torch.inference_mode()
    def check_generation(self) -> None:
        """Generate the probe's tokens beside others.

        Raises:
            TokurError: what they would be chosen from are not the model's probabilities.
        """
        prompts = [[*self.beside.prompt_ids, *self.beside.response_ids], self.tokens.prompt_ids]
        with refusing(lambda why: refusal(self.name, self.model, "generation", f"generation fails ({why})")):
            cache = KVCache(self.model, None)
            if (why := cache.unsupported_reason()) is not None:
                raise refusal(self.name, self.model, "generation", why)
            texts, first = cache.prefill([identity_of(prompt, []) for prompt in prompts])
            cache.admit(texts, [1, 1])
            steps = zip(self.beside.prompt_ids, self.tokens.response_ids[: _STEPS - 1], strict=False)
            met = [first[0, 1], *(cache.step(ids, [step, step])[0, 1] for step, ids in enumerate(steps))]
        rows = torch.stack(met).float().log_softmax(-1)
        # The first row comes from the prompts, the others from the keys and values that are kept
        for some in (slice(1), slice(1, None)):
            off = distance(self.log_p[: len(rows)][some], rows[some])
            self._require("generation", _DIFFERS, off, tolerance(self._dtype) / 5)

    @property
    def _dtype(self) -> torch.dtype:
        """What the model computes in: with quantised weights perhaps bfloat16, as bitsandbytes does on a CPU."""
        return torch.bfloat16 if is_quantised(self.model) else self.model.dtype

    def _require(self, doing: str, what: str, off: float, allowed: float) -> None:
        if not off <= allowed:
            raise refusal(self.name, self.model, doing, f"{what} by {off:.2g} nats a token")


def distance(log_p: Tensor, other: Tensor) -> float:
    """Return the mean of Σ_v p(v) |log p(v) − log p′(v)| over (n, V) log-probabilities, NaN where one of them is.

    All tokens count: a median would pass over a way that is incorrect at some of them.
    """
    p, other = log_p.exp(), other.to(log_p)
    return float(torch.where((p > 0) & (log_p != other), p * (log_p - other).abs(), 0).sum(-1).mean())


@contextmanager
def _merged(posterior: Posterior, num_rows: int) -> Iterator[None]:
    """Have the rows of each draw multiplied with W_0 + U′εᵀ within the context, from ε and U′ as they are exported."""

    def add(matrix: PerturbedMatrix, module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        inputs = arguments[0].unflatten(0, (num_rows, -1))
        outputs = output.clone()
        for member, rows in enumerate(outputs.unflatten(0, (num_rows, -1))[1:]):
            change = (matrix.basis @ posterior.weight_noise(matrix, member).to(matrix.basis).T).to(rows)
            moved = nn.functional.linear(inputs[1 + member], change).view(*rows.shape[:-1], len(change))
            rows[..., slice(None) if matrix.rows is None else matrix.rows.to(rows.device)] += moved
        return outputs

    with ExitStack() as stack:
        for matrix in posterior.matrices:
            stack.enter_context(matrix.module.register_forward_hook(partial(add, matrix)))
        yield


def refusal(name: str, model: PreTrainedModel, doing: str, what: str) -> TokurError:
    """Return the error of a model whose family does not suit what is done (of ``_INSTEAD``), and why."""
    return TokurError(
        f"{name} ({model.config.model_type}): {what}; {doing} with this family isn't supported "
        f"(transformers {transformers.__version__}): {_INSTEAD[doing]}"
    )


def tolerance(dtype: torch.dtype) -> float:
    """Return the nats a token by which two ways of computing a text may differ: more than rounding has been seen to."""
    return {torch.float16: 0.2, torch.bfloat16: 0.5}.get(dtype, 0.02)


def rounding(dtype: torch.dtype) -> float:
    """Return the nats a token by which one way may differ from itself, with a few operations in another order."""
    return {torch.float16: 1e-3, torch.bfloat16: 4e-3}.get(dtype, 2e-4)


def probe_ids(tokenizer: PreTrainedTokenizerBase) -> Sequence[int]:
    """Return the ids of a few tokens."""
    ids: Sequence[int] = tokenizer(_TEXT, add_special_tokens=False)["input_ids"]
    return ids or [0]


def probe_model(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Probe:
    """Run a model as it is on a few tokens.

    Raises:
        TokurError: it doesn't run, or cannot be taken apart.
    """
    text = probe_ids(tokenizer)
    ids = [*itertools.islice(itertools.cycle(text), _PROMPT + _RESPONSE)]
    others = [*ids[: _PROMPT - 1], *itertools.islice(itertools.cycle(reversed(text)), _RESPONSE + _BESIDE)]
    others[_PROMPT - 1 :: 3] = [min(text)] * len(others[_PROMPT - 1 :: 3])
    tokens = TokenizedResponse(ids[:_PROMPT], ids[_PROMPT:])
    beside = TokenizedResponse(others[:_PROMPT], others[_PROMPT:])
    whole = torch.tensor([[*ids, others[-1]]], device=input_device(model))  # what comes later must not matter
    with refusing(lambda why: refusal(name, model, "scoring", f"it does not run ({why})")):
        logits = watch(model, whole)
    if logits.ndim != 3 or logits.shape[:2] != whole.shape:
        raise refusal(name, model, "scoring", f"its logits are {tuple(logits.shape)}, not one row per token")
    return Probe(name, model, tokens, beside, logits[0, _PROMPT - 1 : tokens.length].float().log_softmax(-1))
