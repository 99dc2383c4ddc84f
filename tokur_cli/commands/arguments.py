"""The options of the commands as values, in the groups that commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tokur_cli.records.mapping import FieldMapping


@dataclass(frozen=True)
class InputOptions:
    """Where records come from and what is done about bad ones."""

    path: str
    format: str = "auto"
    mapping: FieldMapping = field(default_factory=FieldMapping)
    requests: str | None = None
    skip_invalid: bool = False


@dataclass(frozen=True)
class OutputOptions:
    """Where records go."""

    path: str | None = None
    resume: bool = False


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is loaded."""

    name: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    device_map: str = "auto"
    trust_remote_code: bool = False


@dataclass(frozen=True)
class PromptOptions:
    """How a question becomes a prompt."""

    template: str = "chat"
    system: str | None = None
    few_shot: str | None = None


@dataclass(frozen=True)
class PosteriorOptions:
    """A kept posterior, or what one is made of; None is what the kept one says, else the default."""

    folder: str | None = None
    draws: int | None = None
    rank: int | None = None
    sigma: float | Literal["auto"] | None = None
    targets: str | None = None
    layers: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ScoringOptions:
    """The posterior, what is computed under it, and what is kept."""

    posterior: PosteriorOptions = field(default_factory=PosteriorOptions)
    sampling: Literal["stepwise", "shared", "joint"] = "stepwise"
    estimator: Literal["paper", "kl", "fisher"] = "paper"
    scores: str | None = None
    tokens: bool = True
    batch_tokens: int | None = None


@dataclass(frozen=True)
class BaselineOptions:
    """How the scores that take more than the draws are computed."""

    llm_check_layer: int | None = None
    over: Literal["attempts", "samples"] = "attempts"
    attempts: int = 10
    attempt_temperature: float = 0.5
    attempt_tokens: int = 64
    entailment: Literal["nli", "judge", "answers", "exact"] = "nli"
    nli_model: str | None = None
    similarity: Literal["embedding", "nli", "jaccard"] = "embedding"
    similarity_model: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class StrengthOptions:
    """Which strengths of the perturbation are tried, and on what."""

    sweep: tuple[float, ...] = ()
    calibrate: bool = False
    tolerance: float = 0.05
    limit: int | None = None
    sampling: Literal["stepwise", "shared", "joint"] = "stepwise"
    batch_tokens: int | None = None


@dataclass(frozen=True)
class KeepOptions:
    """Where a posterior is kept."""

    folder: str | None = None
    force: bool = False


@dataclass(frozen=True)
class DecodingOptions:
    """How responses are generated."""

    samples: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int = 0
    backend: Literal["transformers", "vllm"] = "transformers"
    batch_size: int | None = None
    max_memory_gib: float | None = None
