"""Scoring by stock vLLM: its last hidden states, with a LoRA adapter for each draw, in place of the layers' own pass.

vLLM's pooling runner gives the state after the last norm at every position. What follows (the model's head with its
scalings and soft caps, the vocabulary's reductions) is ``Scorer``'s, with the head of the checkpoint. The layers are
let go of before vLLM starts: the posterior's basis has been computed from them, and a few tokens for comparison.
"""

from __future__ import annotations

import bisect
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from transformers.utils.generic import ModelOutput

from tokur_cli.engine.forward.batching import refusing
from tokur_cli.engine.forward.body import logits_from
from tokur_cli.engine.forward.hooks import Draws
from tokur_cli.engine.forward.prefix_tree import Node
from tokur_cli.engine.forward.probe import distance, refusal, tolerance
from tokur_cli.engine.model.load import LanguageModel
from tokur_cli.engine.model.place import drop_layers
from tokur_cli.engine.model.vllm import prepare_vllm, start_vllm
from tokur_cli.engine.output import silencer
from tokur_cli.engine.posterior.folder import save_adapter
from tokur_cli.engine.scoring.scorer import SamplingMode, Scorer, TokenizedResponse
from tokur_cli.records.errors import TokurError

_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has room for
_ADAPTERS_TOGETHER = 4  # in a step
_TASK = "token_embed"
_FAR = "{}, vLLM's predictions are {:.2g} nats a token from those of transformers"
_ROUNDING = 3.0  # times what rounding does under the mean weights, it may do under a draw
_UNSEEN = 1e-4  # nats: what it may do under a draw in any case


class VllmScorer(Scorer):
    """Scores as ``Scorer`` does, with the hidden states that vLLM computes.

    Args:
        language_model: the model, of which it keeps what is around the layers.
        draws: the draws; None for the quantities of the mean weights alone.
        sampling: ``shared`` or ``joint``: an adapter is one draw for a whole response.
        resources: what vLLM may take, as ``start_vllm`` is told.
        tell: takes what vLLM printed, where it fails.
        options: as for ``Scorer``.

    Raises:
        UsageError: vLLM is not installed.
        TokurError: vLLM cannot load the model or the draws, or its numbers are not those of the model.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        draws: Draws | None,
        *,
        sampling: SamplingMode,
        resources: Mapping[str, Any],
        tell: Callable[[str], None],
        **options: Any,
    ) -> None:
        super().__init__(language_model.model, draws, sampling=sampling, **options)
        self._refusal = partial(refusal, language_model.name, self.model, "scoring by vLLM")
        self._adapters: list[Any] = [None]
        self._silenced = silencer("vLLM", tell)
        prepare_vllm(language_model)
        reference = self._reference(language_model.probe.tokens)
        if draws:
            self._folder = tempfile.TemporaryDirectory(prefix="tokur-draws-")
            with self._silenced():
                self._adapters += _adapters(Path(self._folder.name), language_model, draws)
        drop_layers(language_model.model)  # soon in vLLM once more
        clear_device_cache()
        with self._silenced():
            from vllm.config import PoolerConfig

            settings = _lora(draws) if draws else {}
            pooler = PoolerConfig(task=_TASK, use_activation=False)  # gives hidden states as they are
            settings |= {"runner": "pooling", "convert": "embed", "pooler_config": pooler}
            self._engine = start_vllm(language_model, **resources, **settings)
        self._check(language_model.probe.tokens, reference)

    def batches(self, responses: Sequence[TokenizedResponse]) -> Iterator[tuple[list[int], tuple[Node, ...]]]:
        """Yield batches in the order of the responses: what these have in common is vLLM's to find."""
        left = [*range(len(responses))]
        while left:
            sums = [*itertools.accumulate(responses[index].length for index in left)]
            count = max(1, bisect.bisect(sums, self._batches.batch_tokens))
            yield left[:count], ()
            left = left[count:]

    def states(self, responses: Sequence[TokenizedResponse], path: tuple[Node, ...] = ()) -> tuple[Tensor, ModelOutput]:
        """Return the states (1 + M, N, d) that predict the responses' tokens, and what the body put out for others."""
        return self._states(responses, self._adapters), self._outputs

    def _states(self, responses: Sequence[TokenizedResponse], adapters: Sequence[Any]) -> Tensor:
        """Return the states that predict the responses' tokens, (1 + M, N, d), where the head computes."""
        with refusing(lambda why: TokurError(f"vLLM fails ({why})")), self._silenced():
            # What an earlier batch left would change this one's rounding with what is asked for
            self._engine.reset_prefix_cache()
            # On a CPU, vLLM 0.32 takes rows without an adapter, where they stand beside others, for those of the
            # last one: the mean weights are asked for apart, and last, so that _check would see it where they are
            drawn = self._rows(responses, adapters[1:])
            rows = [*self._rows(responses, adapters[:1]), *drawn]
        hidden: Tensor = torch.cat(rows).unflatten(0, (len(adapters), -1))
        return hidden.to(self.device, self.model.dtype)

    def _rows(self, responses: Sequence[TokenizedResponse], adapters: Sequence[Any]) -> list[Tensor]:
        """Return the states that predict each response's tokens, (T, d), under one adapter after the other."""
        asked = [(response, adapter) for adapter in adapters for response in responses]
        states = self._encode(asked, cached=True)
        # vLLM gives no states of what it has kept: responses that begin alike may lack some of theirs
        lacking = [i for i, (response, _) in enumerate(asked) if len(states[i]) < len(response.response_ids)]
        for i, whole in zip(lacking, self._encode([asked[i] for i in lacking], cached=False), strict=True):
            states[i] = whole
        return [state[-len(response.response_ids) :] for state, (response, _) in zip(states, asked, strict=True)]

    def _encode(self, asked: Sequence[tuple[TokenizedResponse, Any]], *, cached: bool) -> list[Tensor]:
        """Return the states (n, d) at each response's last n positions; n is less than all where some were kept."""
        from vllm import PoolingParams

        if not asked:
            return []
        outputs = self._engine.encode(
            [{"prompt_token_ids": (response.identity >> 32).tolist()} for response, _ in asked],
            PoolingParams(task=_TASK, use_activation=False, skip_reading_prefix_cache=not cached),
            lora_request=[adapter for _, adapter in asked],
            pooling_task=_TASK,
            use_tqdm=False,
        )
        return [output.outputs.data for output in outputs]

    @torch.inference_mode()
    def _reference(self, tokens: TokenizedResponse) -> list[Tensor]:
        """Return log-probabilities (T, V) of a few tokens under the mean weights and the first draws, by transformers.

        Raises:
            TokurError: the model does not run: vLLM, where it generates in this process, changes transformers' classes.
        """
        draws = Draws(self.draws.posterior, min(self.draws.num_draws, _ADAPTERS_TOGETHER)) if self.draws else None
        with refusing(lambda why: self._refusal(f"it does not run beside vLLM ({why})")):
            states, self._outputs = Scorer(self.model, draws, sampling=self.sampling).states([tokens])
        return self._log_probabilities(states)

    @torch.inference_mode()
    def _check(self, tokens: TokenizedResponse, reference: Sequence[Tensor]) -> None:
        """Compare vLLM's numbers of a few tokens with those of ``_reference``.

        Under a draw they must come nearer to that draw than to the mean weights: a family of which vLLM leaves
        adapters out gives the numbers of the mean weights.

        Raises:
            TokurError: they differ by more than rounding.
        """
        own, *drawn = reference
        theirs, *adapted = self._log_probabilities(self._states([tokens], self._adapters[: len(reference)]))
        rounding, allowed = distance(own, theirs), tolerance(self.model.dtype)
        if not rounding <= allowed:
            raise self._refusal(_FAR.format("under the mean weights", rounding))
        for one, other in zip(drawn, adapted, strict=True):
            off = distance(one, other)
            if not off <= min(allowed, max(distance(one, own) / 2, _ROUNDING * rounding, _UNSEEN)):
                raise self._refusal(_FAR.format("under a draw", off))

    def _log_probabilities(self, states: Tensor) -> list[Tensor]:
        """Return (T, V) for each of the states (rows, T, d) that predict a response's tokens."""
        with logits_from(self.model, self._outputs) as logits:
            return [logits(row[None])[0].float().log_softmax(-1) for row in states.flatten(1, -2)]


def _lora(draws: Draws) -> dict[str, Any]:
    """Return the settings under which vLLM takes the draws."""
    names = [matrix.module_name for matrix in draws.posterior.matrices]
    rank = draws.posterior.rank * max(map(names.count, names))  # the projections of a fused weight share one adapter
    room = min((most for most in _RANKS if rank <= most), default=rank)
    together = min(draws.num_draws, _ADAPTERS_TOGETHER)
    return {"enable_lora": True, "max_lora_rank": room, "max_loras": together, "max_cpu_loras": draws.num_draws}


def _adapters(folder: Path, language_model: LanguageModel, draws: Draws) -> list[Any]:
    """Write the draws as adapters, and return how vLLM is asked for each."""
    from vllm.lora.request import LoRARequest

    asked = []
    for number in range(draws.num_draws):
        place = folder / f"draw-{number}"
        save_adapter(place, language_model, draws.posterior, number)
        asked.append(LoRARequest(place.name, number + 1, str(place)))
    return asked
