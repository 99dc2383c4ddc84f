"""Which model computes, what it is asked, and how it answers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from typer import Option

from tokur_cli.commands.options.files import Reads
from tokur_cli.commands.options.guided import Guidance
from tokur_cli.commands.options.relations import Excludes, Rare
from tokur_cli.commands.options.shares import share
from tokur_cli.engine.model.request import ModelRequest, Offload, check_device_map
from tokur_cli.records.errors import UsageError

_TEMPLATES = ("chat", "raw", "math")
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
PARTICLES, TEMPERATURE = 16, 0.8
"""What ``-n`` and ``--temperature`` are with ``--guide``, the paper's."""


def _model(name: str | None) -> list[str | None]:
    return [name or os.environ.get("TOKUR_MODEL")]


def _template_file(name: str) -> list[str]:
    return [] if name in _TEMPLATES else [name]


class NamedModel(NamedTuple):
    """A model that records or a posterior name, and what it is put on where it is an adapter."""

    name: str
    base: str | None


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is loaded.

    Attributes:
        of_records: its name was not asked for, the records have it.
        is_default: nothing names it.
    """

    panel: ClassVar[str] = "Model"

    of_records: bool = False
    is_default: bool = False
    name: Annotated[
        str | None,
        Reads(_model),
        Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Hub id or ID@REVISION, folder or GGUF file. Default: the model that the records name, then "
            "TOKUR_MODEL, then the embedded smollm2-135m-instruct.",
        ),
    ] = None
    adapter: Annotated[
        str | None,
        Reads(),
        Option(
            metavar="NAME",
            help="PEFT adapter, merged into -m, or without -m into the base that it names.",
        ),
    ] = None
    quantize: Annotated[
        Literal["4bit", "8bit"] | None,
        Option(
            metavar="BITS",
            help="4bit (NF4) or 8bit: quantise the weights while they are loaded.",
        ),
    ] = None
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16", "fp32", "bf16", "fp16"],
        Option(
            metavar="DTYPE",
            help="auto (bfloat16 where that is fast, else float32), or fp32, bf16, fp16 by short or long names.",
        ),
    ] = "auto"
    device_map: Annotated[str, Option(metavar="MAP", help="accelerate's device map: auto, cpu, cuda:0, balanced …")] = (
        "auto"
    )
    offload_dir: Annotated[
        str | None,
        Rare(),
        Option(
            metavar="DIR",
            help="Folder for what of the weights neither the GPUs nor main memory have room for: they are fetched for "
            "every pass, which is slow.",
        ),
    ] = None
    weights_memory: Annotated[
        float | None,
        Rare(),
        Option(min=0.0, metavar="GIB", help="GiB of weights on each GPU and in main memory. Default: what is free."),
    ] = None
    revision: str | None = None  # of ``NAME@REVISION``, once the name is chosen
    trust_remote_code: Annotated[bool, Option("--trust-remote-code", help="Run code that comes with the model.")] = (
        False
    )

    def __post_init__(self) -> None:
        check_device_map(self.device_map)
        vars(self)["dtype"] = _DTYPES.get(self.dtype, self.dtype)

    @property
    def offload(self) -> Offload | None:
        """Where weights go that don't fit; None for nowhere."""
        if self.offload_dir is None:
            return None
        limit = None if self.weights_memory is None else int(self.weights_memory * 2**30)
        return Offload(self.offload_dir, limit)

    @property
    def request(self) -> ModelRequest:
        """What the engine is asked for, once the name is chosen."""
        assert self.name is not None
        names = ("adapter", "quantize", "dtype", "device_map", "offload", "revision", "trust_remote_code")
        return ModelRequest(self.name, **{name: getattr(self, name) for name in names})

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
        Reads(_template_file),
        Option(
            metavar="NAME",
            help="How a question becomes the prompt: chat (the model's template), raw, math (the paper's), or a Jinja "
            "file over the record's fields.",
        ),
    ] = "chat"
    system: Annotated[
        str | None,
        Option(metavar="TEXT", help="System turn, before messages that begin with none."),
        Excludes("--template=raw"),
    ] = None
    few_shot: Annotated[
        str | None, Reads(), Option(metavar="FILE", help="JSONL of worked examples to put before the question.")
    ] = None
    date: Annotated[
        str | None,
        Rare(),
        Option(
            metavar="YYYY-MM-DD",
            help="The day that a chat template is given as today's: that on which responses were made. Default: the "
            "template's own, or 2024-07-26.",
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.day

    @property
    def day(self) -> datetime | None:
        """The date, parsed."""
        try:
            return None if self.date is None else datetime.strptime(self.date, "%Y-%m-%d")
        except ValueError:
            raise UsageError(f"--set date={self.date}: is no date such as 2024-07-26") from None


@dataclass(frozen=True)
class BackendOptions:
    """Which library runs the model, and what it may take."""

    panel: ClassVar[str] = "Model"

    backend: Annotated[
        Literal["transformers", "vllm"],
        Option(help="vllm: stock vLLM; it scores with --sampling shared or joint."),
    ] = "transformers"
    max_memory: Annotated[
        float | None,
        Rare(),
        Option(min=0.0, metavar="GIB", help="GiB for keys and values. Default: half of what is free; vLLM's own."),
    ] = None
    tensor_parallel_size: Annotated[
        int,
        Option(min=1, metavar="N", help="GPUs over which vLLM divides the model."),
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
        Option(
            "--samples",
            "-n",
            min=1,
            metavar="N",
            help="N, responses per question.",
            show_default="1, or 16 with --guide",
        ),
    ] = 1
    stop_at: Annotated[
        float | None,
        Option(
            metavar="P",
            help="Draw no more of the N than it takes until the leading answer is the most frequent one of all N "
            "with this probability, such as 0.95; at least 4.",
        ),
        Excludes("--guide"),
    ] = None
    temperature: Annotated[
        float,
        Option(min=0.0, metavar="NUMBER", help="0 takes the most likely token.", show_default="0, or 0.8 with --guide"),
    ] = 0.0
    top_p: Annotated[
        float,
        Option(
            parser=share,
            metavar="SHARE",
            help="Sample from the likeliest tokens that together have this share.",
        ),
    ] = 1.0
    top_k: Annotated[
        int, Option(min=0, metavar="N", help="Sample from this many of the likeliest tokens; 0 for all.")
    ] = 0
    min_p: Annotated[
        float,
        Option(
            parser=share,
            metavar="SHARE",
            help="Sample from tokens with this share of the likeliest one's probability.",
        ),
    ] = 0.0
    max_new_tokens: Annotated[int, Option(min=1, metavar="N", help="Tokens of a response, at most.")] = 512
    stop: Annotated[
        list[str], Option(metavar="TEXT", help="Text that ends a response; may be given several times.")
    ] = field(default_factory=list)
    seed: int = 0
    batch_size: Annotated[
        int | None,
        Rare(),
        Option(
            min=1,
            metavar="N",
            help="Responses at once; halved when memory does not suffice. Default: 256.",
        ),
    ] = None
    engine: BackendOptions = field(default_factory=BackendOptions)
    guidance: Guidance | None = None
    given: frozenset[str] = frozenset()

    def guided_by(self, guidance: Guidance | None, seed: int) -> DecodingOptions:
        """Return the options with a seed and a guidance, under which N and temperature are the paper's unless given."""
        of_paper = {"samples": PARTICLES, "temperature": TEMPERATURE} if guidance else {}
        unsaid: dict[str, Any] = {name: value for name, value in of_paper.items() if name not in self.given}
        return replace(self, guidance=guidance, seed=seed, **unsaid)
