"""Which model computes, what it is asked, and how it answers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from typer import Option

from tokur_cli.commands.options.guided import GuidedOptions
from tokur_cli.commands.options.marks import Excludes, Needs, Rare, Reads, share
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import UsageError

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_OF_SAMPLING = Needs("--temperature", "--guide")
PARTICLES, TEMPERATURE = 16, 0.8  # what ``-n`` and ``--temperature`` are with ``--guide``, the paper's
_MODEL = Reads(lambda name: [name or os.environ.get("TOKUR_MODEL")])
_TEMPLATE_FILE = Reads(lambda name: [] if name in ("chat", "raw", "math") else [name])


class NamedModel(NamedTuple):
    """A model that records or a posterior name, and what it is put on where it is an adapter."""

    name: str
    base: str | None


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is loaded."""

    panel: ClassVar[str] = "Model"

    of_records: bool = False  # its name was not asked for, the records have it
    is_default: bool = False  # nothing names it
    name: Annotated[
        str | None,
        _MODEL,
        Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Hub id or ID@REVISION, folder or GGUF file. Default: the one that the records name, TOKUR_MODEL, or "
            "smollm2-135m-instruct, embedded.",
        ),
    ] = None
    adapter: Annotated[str | None, Reads(), Option(metavar="NAME", help="PEFT adapter, for -m or its own base.")] = None
    quantize: Annotated[Literal["4bit", "8bit"] | None, Option(metavar="BITS", help="4bit (NF4) or 8bit.")] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "fp32", "bf16", "fp16"],
        Option(metavar="DTYPE", help="fp32, bf16, fp16 or auto: bf16 where fast."),
    ] = "auto"
    device_map: Annotated[str, Option(metavar="MAP", help="auto, cpu, cuda:0, balanced …")] = "auto"
    offload_dir: Annotated[str | None, Rare(), Option(metavar="DIR", help="For weights that fit nowhere; slow.")] = None
    weights_memory: Annotated[
        float | None,
        Rare(),
        Option(min=0.0, metavar="GIB", help="Limit of the weights, on each GPU and in memory."),
    ] = None
    revision: str | None = None  # of ``NAME@REVISION``, once the name is chosen
    trust_remote_code: Annotated[bool, Option("--trust-remote-code", help="Run the model's own code.")] = False

    def __post_init__(self) -> None:
        vars(self)["dtype"] = _DTYPES.get(self.dtype, self.dtype)
        if self.weights_memory is not None and self.offload_dir is None:
            raise UsageError("--set weights_memory needs --set offload_dir")

    @property
    def request(self) -> ModelRequest:
        """What the engine is asked for, once the name is chosen."""
        assert self.name is not None
        return ModelRequest(**{each.name: getattr(self, each.name) for each in fields(ModelRequest)})

    def or_named(self, named: NamedModel | None) -> ModelOptions:
        """Return the options with a model that something else names, unless they name one."""
        if self.name or self.adapter or named is None:
            return self
        name, adapter = (named.base, named.name) if named.base else (named.name, None)
        return replace(self, name=name, adapter=adapter)


@dataclass(frozen=True)
class PromptOptions:
    """How a question becomes a prompt."""

    panel: ClassVar[str] = "Input"

    template: Annotated[
        str,
        _TEMPLATE_FILE,
        Option(metavar="NAME", help="The prompt: chat (the model's), raw, math (the paper's) or a Jinja file."),
    ] = "chat"
    system: Annotated[
        str | None,
        Option(metavar="TEXT", help="System turn, before messages that begin with none."),
        Excludes("--template=raw"),
    ] = None
    few_shot: Annotated[
        str | None,
        Reads(),
        Option(metavar="FILE", help="Worked examples (question, response) before the question."),
    ] = None
    date: Annotated[
        datetime | None,
        Rare(),
        Option(formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="A chat template's today. Default: 2024-07-26."),
    ] = None


@dataclass(frozen=True)
class BackendOptions:
    """Which library runs the model, and what it may take."""

    panel: ClassVar[str] = "Model"

    backend: Annotated[
        Literal["transformers", "vllm"],
        Option(metavar="NAME", help="transformers, or vllm (--sampling shared or joint)."),
    ] = "transformers"
    max_memory: Annotated[
        float | None, Rare(), Option(min=0.0, metavar="GIB", help="For keys and values. Default: half of free memory.")
    ] = None
    tensor_parallel_size: Annotated[
        int, Needs("--backend=vllm"), Option(min=1, metavar="N", help="GPUs over which vLLM divides the model.")
    ] = 1

    @property
    def cache_bytes(self) -> int | None:
        """What keys and values may take; None for the default."""
        return None if self.max_memory is None else int(self.max_memory * 2**30)


@dataclass(frozen=True)
class DecodingOptions:
    """How responses are generated; the seed is that of all random numbers, which the posterior's options declare."""

    panel: ClassVar[str] = "Decoding"

    samples: Annotated[
        int,
        Option("--samples", "-n", min=1, metavar="N", help="Responses a question.", show_default="1; 16 with --guide"),
    ] = 1
    stop_at: Annotated[
        float | None,
        Option(
            parser=share,
            metavar="P",
            help="Draw no more once the leading answer wins the vote of N with this probability.",
        ),
        Excludes("--guide"),
    ] = None
    temperature: Annotated[
        float,
        Option(
            min=0.0, max=1e6, metavar="NUMBER", help="0 takes the likeliest token.", show_default="0; 0.8 with --guide"
        ),
    ] = 0.0
    top_p: Annotated[
        float,
        Option(
            parser=share, metavar="SHARE", help="Sample from the likeliest tokens that together reach this probability."
        ),
        _OF_SAMPLING,
    ] = 1.0
    top_k: Annotated[
        int, Option(min=0, metavar="N", help="Sample from the N likeliest tokens; 0: all."), _OF_SAMPLING
    ] = 0
    min_p: Annotated[
        float,
        Option(
            parser=share, metavar="SHARE", help="Sample from tokens at least this share as likely as the likeliest."
        ),
        _OF_SAMPLING,
    ] = 0.0
    max_new_tokens: Annotated[int, Option(min=1, metavar="N", help="Tokens of a response, at most.")] = 512
    stop: Annotated[list[str], Option(metavar="TEXT", help="Text that ends a response; repeatable.")] = field(
        default_factory=list
    )
    seed: int = 0
    batch_size: Annotated[int | None, Rare(), Option(min=1, metavar="N", help="Responses at once; else 256.")] = None
    engine: BackendOptions = field(default_factory=BackendOptions)
    guidance: GuidedOptions | None = None
    given: frozenset[str] = frozenset()

    def together(self, engine: BackendOptions, guided: GuidedOptions, seed: int) -> DecodingOptions:
        """Return the options with others; where a score guides, N and temperature are the paper's unless given."""
        guidance = None if guided.guide is None else guided
        of_paper = {"samples": PARTICLES, "temperature": TEMPERATURE} if guidance else {}
        unsaid: dict[str, Any] = {name: value for name, value in of_paper.items() if name not in self.given}
        return replace(self, engine=engine, guidance=guidance, seed=seed, **unsaid)
