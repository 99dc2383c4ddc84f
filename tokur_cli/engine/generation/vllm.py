"""Generation by stock vLLM, where it is installed: the same requests in, the same responses out."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from tokur_cli.engine.generation.decoder import DecodedResponse, DecodingRequest, Result, text_of
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.model.load import ModelDescription
from tokur_cli.engine.model.vllm import start_vllm
from tokur_cli.engine.output import silencer
from tokur_cli.records.errors import TokurError

# Where a prompt is split between two steps, vLLM turns the request's random generator back by the number that the first
# part drew for nothing, and PyTorch's generators on a CPU cannot be turned back ("CPU Generator does not use offset")
_WHOLE_PROMPTS = {"enable_chunked_prefill": False}
_IN_FLIGHT = 512  # responses that vLLM knows of at once; it batches as many of them as its memory holds


@dataclass(eq=False)
class VllmDecoder:
    """Generates responses with vLLM; each sample is a request with a seed of its own from (seed, key, sample).

    Raises:
        UsageError: vLLM is not installed.
        TokurError: vLLM cannot load the model.
    """

    model: ModelDescription  # what to load
    decode: Callable[[Sequence[int]], str]  # ids to text without special tokens
    sampling: Sampling  # how tokens are chosen
    _: KW_ONLY
    end_ids: frozenset[int]  # the tokens that end a response
    max_new_tokens: int  # the longest response, its end token included
    stop: tuple[str, ...] = ()  # strings that end a response where they first appear
    resources: Mapping[str, Any] = field(default_factory=dict)  # what vLLM may take, as ``start_vllm`` is told
    tell: Callable[[str], None]  # takes what vLLM printed, where it fails

    def __post_init__(self) -> None:
        self._silenced = silencer("vLLM", self.tell)
        with self._silenced():
            self._engine = start_vllm(self.model, on_cpu=_WHOLE_PROMPTS, **self.resources).llm_engine

    def serve(self, requests: Iterable[DecodingRequest | None]) -> Iterator[Result | None]:
        """Yield responses as they end, requests with an error of which vLLM aborted one, and None; see ``Decoder``."""
        # Of each request its samples, and None where there are no more for the moment
        source = ((request, sample) for request in requests for sample in (request.samples if request else (0,)))
        pending: dict[str, tuple[DecodingRequest, int]] = {}
        ended = False
        while pending or not ended:
            while len(pending) < _IN_FLIGHT and not ended:
                request, sample = next(source, (None, None))
                ended = sample is None
                if request is None or sample is None:
                    break
                name = f"{request.index}-{sample}"
                pending[name] = request, sample
                prompt = {"prompt_token_ids": list(request.prompt_ids)}
                with self._silenced():
                    self._engine.add_request(name, prompt, self._parameters(request, sample))
            if pending:
                with self._silenced():
                    outputs = self._engine.step()
                for output in outputs:
                    if output.finished:
                        yield self._response(*pending.pop(output.request_id), output.outputs[0])
            elif not ended:
                yield None

    def _parameters(self, request: DecodingRequest, sample: int) -> Any:
        from vllm import SamplingParams

        room = (self.model.context_length or sys.maxsize) - len(request.prompt_ids)
        key = repr((self.sampling.seed, "sample", request.key, sample)).encode()
        return SamplingParams(
            temperature=self.sampling.temperature,
            top_k=self.sampling.top_k,
            top_p=self.sampling.top_p,
            min_p=self.sampling.min_p,
            seed=int.from_bytes(hashlib.sha256(key).digest()[:4], "little"),
            max_tokens=min(self.max_new_tokens, room),
            stop=list(self.stop),
            stop_token_ids=sorted(self.end_ids),
        )

    def _response(self, request: DecodingRequest, sample: int, output: Any) -> Result:
        ids, reason = list(output.token_ids), output.finish_reason
        if reason not in ("length", "stop"):
            return request, TokurError(f"vLLM did not end a response ({reason})")
        if reason == "stop" and isinstance(output.stop_reason, str):
            reason = "stop_string"
        text = text_of(self.decode, ids, reason, self.stop)
        return DecodedResponse(request.index, sample, ids, text, reason)
