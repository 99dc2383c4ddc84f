"""From a model's name to the model and its tokenizer, ready for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tokur_cli import __version__
from tokur_cli.engine.loading.adapted import Adapter, find_adapted, put_on
from tokur_cli.engine.loading.configs import CAUSAL, auto_class, causal_config, context_length_of
from tokur_cli.engine.loading.default_model import DEFAULT_MODEL
from tokur_cli.engine.loading.hardware import Offload, let_segments_expand, limit_kernel_caches, resolve_dtype
from tokur_cli.engine.loading.imports import import_transformers
from tokur_cli.engine.loading.sources import Source, explain_hub_error, first_line
from tokur_cli.engine.loading.weights import empty_model, load_weights
from tokur_cli.engine.panics import is_panic
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from tokur_cli.engine.probe import Probe

__all__ = ["DEFAULT_MODEL", "LanguageModel", "load_language_model"]


@dataclass(frozen=True)
class ModelDescription:
    """All of a causal language model but its weights, for whoever loads those in a way of its own.

    Args:
        place: a local folder or a hub id; where it has an adapter, of its base.
        tokenizer: its tokenizer.
        name: as records name it: what the user typed.
        revision: the hub commit, None for local files.
        dtype: of the weights: ``bfloat16``, ``float32`` or ``float16``.
        context_length: in tokens, None for a model without a limit.
        end_ids: the tokens that end its responses.
        vocabulary_size: how many token ids it takes, not always the tokenizer's; None if its configuration does
            not say.
        trust_remote_code: whether its own Python code is to be run.
        base: where its name is that of an adapter, the model that this is put on; else None.
        base_revision: the hub commit of that.
        quantize: as what its weights are quantised while they are loaded; None leaves them as they are.
    """

    place: str
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    dtype: str
    context_length: int | None
    end_ids: tuple[int, ...]
    vocabulary_size: int | None
    _: KW_ONLY
    trust_remote_code: bool = False
    base: str | None = None
    base_revision: str | None = None
    quantize: str | None = None

    @property
    def of_base(self) -> dict[str, Any]:
        """What tells the base of an adapter; of another model nothing."""
        return {} if self.base is None else {"base": self.base, "base_revision": self.base_revision}

    @property
    def identity(self) -> dict[str, Any]:
        """What tells the model and its weights from others."""
        quantized = {} if self.quantize is None else {"quantize": self.quantize}
        return {"model": self.name, "revision": self.revision, **self.of_base, "dtype": self.dtype, **quantized}

    @property
    def settings(self) -> dict[str, Any]:
        """What all that is computed with the model depends on."""
        return {**self.identity, "version": __version__}


@dataclass(frozen=True)
class LanguageModel(ModelDescription):
    """A causal language model in evaluation mode, without gradients.

    Args:
        model: the model, on its device or devices.
        probe: what it makes of a few tokens, which is asked for before it scores or generates.
    """

    model: PreTrainedModel
    probe: Probe

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the input embeddings."""
        from tokur_cli.engine.body import input_device

        return input_device(self.model)


def say_nothing(message: str) -> None:
    """Drop a progress message."""


def load_language_model(
    name: str,
    *,
    adapter: str | None = None,
    quantize: str | None = None,
    dtype: str = "auto",
    device_map: str = "auto",
    offload: Offload | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    layers_on_disk: bool = False,
    check: Callable[[ModelDescription], None] | None = None,
    progress: Callable[[str], None] = say_nothing,
) -> LanguageModel:
    """Load a causal language model by hub id, folder, GGUF file or the embedded default's name.

    Args:
        name: what the user typed; an adapter comes with the base that its config names.
        adapter: hub id or folder of an adapter that belongs on the model.
        quantize: ``4bit`` or ``8bit``, by which the weights are quantised while they are loaded; None leaves them.
        dtype: ``bfloat16``, ``float32``, ``float16``, or ``auto``: bfloat16 where it is fast, else float32.
        device_map: ``auto``, ``balanced``, ``balanced_low_0``, ``sequential`` or a torch device.
        offload: where weights go that don't fit; None for nowhere.
        revision: a hub branch, tag or commit; only for hub ids.
        trust_remote_code: run the model's own Python code.
        layers_on_disk: leave the layers where they are, since another engine has them in memory; they can be read and,
            slowly, run. (transformers cannot leave quantised ones there.)
        check: called before the weights are loaded, which takes long: raises what the model is not fit for.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: an unknown dtype or device, a revision for local files, or a library that is not installed.
        TokurError: the model can't be had, doesn't fit, isn't a causal language model, or doesn't run; says what to do.
    """
    source, own, config, found = _find(
        name, adapter, quantize, dtype, device_map, revision, trust_remote_code, progress
    )
    if check is not None:
        check(found)
    import torch

    from tokur_cli.engine.loading.quantised import multiply_unrounded
    from tokur_cli.engine.loading.reordered import reorder_weights
    from tokur_cli.engine.probe import probe_ids, probe_model
    from tokur_cli.engine.silenced import Silenced

    limit_kernel_caches()
    let_segments_expand(device_map)
    packed = hasattr(config, "quantization_config")
    # Libraries of quantised weights draw bars and banners, on standard output too, some when they first compute
    label = source.label(found.base or name)
    quiet = Silenced(f"the library of {label}'s weights", progress)() if packed else nullcontext()
    with explained_errors(label), quiet:
        model = load_weights(
            source,
            label,
            config,
            getattr(torch, found.dtype),
            device_map,
            kind=auto_class(config) or CAUSAL,
            offload=offload,
            quantize=quantize,
            trust_remote_code=trust_remote_code,
            layers_on_disk=layers_on_disk,
        )
        multiply_unrounded(model)
        if own is not None:
            model = put_on(model, own, probe_ids(found.tokenizer))
        reorder_weights(model)
        return LanguageModel(**vars(found), model=model, probe=probe_model(found.name, model, found.tokenizer))


def describe_model(
    name: str,
    *,
    adapter: str | None = None,
    quantize: str | None = None,
    dtype: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: Callable[[str], None] = say_nothing,
) -> ModelDescription:
    """Resolve a name as ``load_language_model`` does, without loading the weights.

    Raises:
        UsageError: an unknown dtype, or a revision for local files.
        TokurError: the model can't be had, or isn't a causal language model.
    """
    return _find(name, adapter, quantize, dtype, "auto", revision, trust_remote_code, progress)[-1]


@dataclass(frozen=True)
class Outline:
    """A model without its weights, and what these take.

    Args:
        description: all but the weights.
        empty: the model, on the device ``meta``; an adapter on it is merged, and so takes nothing.
        weights_bytes: None where they are quantised already: shapes don't tell what the packed weights take.
    """

    description: ModelDescription
    empty: PreTrainedModel
    weights_bytes: int | None


def outline_model(
    name: str,
    *,
    adapter: str | None = None,
    quantize: str | None = None,
    dtype: str = "auto",
    device_map: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: Callable[[str], None] = say_nothing,
) -> Outline:
    """Resolve a name as ``load_language_model`` does, and say what loading its weights would take; raises the same."""
    source, _, config, found = _find(name, adapter, quantize, dtype, device_map, revision, trust_remote_code, progress)
    import torch

    from tokur_cli.engine.loading.quantised import bytes_of

    with explained_errors(source.label(found.base or name)):
        empty = empty_model(config, getattr(torch, found.dtype), trust_remote_code, auto_class(config) or CAUSAL).eval()
        packed = getattr(config, "quantization_config", None) is not None
        return Outline(found, empty, None if packed else bytes_of(empty, quantize))


def _find(
    name: str,
    adapter: str | None,
    quantize: str | None,
    dtype: str,
    device_map: str,
    revision: str | None,
    trust_remote_code: bool,
    progress: Callable[[str], None],
) -> tuple[Source, Adapter | None, PreTrainedConfig, ModelDescription]:
    """Return where a model is, the adapter that belongs on it, its config, and all of it but its weights."""
    with explained_errors(name):
        source, own = find_adapted(name, adapter, revision, progress)
    import_transformers()
    from tokur_cli.engine.turns import end_token_ids

    torch_dtype = resolve_dtype(dtype, device_map)
    named, owner = (own.name, own.source) if own else (name, source)
    with explained_errors(label := source.label(own.base if own else name)):
        config = causal_config(source, label, trust_remote_code)
        if own and own.source.has_tokenizer:
            tokenizer = load_tokenizer(own.source, own.name, trust_remote_code)
        else:
            tokenizer = load_tokenizer(source, label, trust_remote_code)
        vocabulary_size = getattr(config.get_text_config(decoder=True), "vocab_size", None)
        if own and vocabulary_size is not None:  # it may bring tokens of its own
            vocabulary_size = max(vocabulary_size, len(tokenizer))
        found = ModelDescription(
            place=str(source.place),
            tokenizer=tokenizer,
            name=named,
            revision=owner.revision,
            dtype=str(torch_dtype).removeprefix("torch."),
            context_length=context_length_of(config),
            end_ids=end_token_ids(_generation_config(source), config, tokenizer),
            vocabulary_size=vocabulary_size,
            trust_remote_code=trust_remote_code,
            base=own.base if own else None,
            base_revision=source.revision if own else None,
            quantize=quantize,
        )
    return source, own, config, found


def _generation_config(source: Source) -> GenerationConfig | None:
    import transformers

    auto: Any = transformers.GenerationConfig
    try:
        config: GenerationConfig = auto.from_pretrained(source.place, **source.options)
    except OSError:  # a model without one
        return None
    return config


def load_tokenizer(source: Source, name: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer.

    Raises:
        TokurError: there is none, or none that can be read.
    """
    from transformers import AutoTokenizer

    unreadable = f"{name} has no tokenizer that can be read: its tokenizer.json is missing or damaged"
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source.place, trust_remote_code=trust_remote_code, **source.options
        )
    except (OSError, ValueError) as error:
        if "trust_remote_code" in str(error) or explain_hub_error(error, name) is not None:
            raise
        raise TokurError(unreadable) from error
    # Where the files are missing, transformers makes some families a tokenizer of nothing but special tokens.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise TokurError(unreadable)
    return tokenizer


@contextmanager
def explained_errors(name: str) -> Iterator[None]:
    """Turn whatever the libraries raise while they load a model into one sentence for its user."""
    try:
        yield
    except TokurError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        import torch
        import transformers
        from safetensors import SafetensorError

        if isinstance(error, torch.OutOfMemoryError):
            raise TokurError(f"{name} doesn't fit on the device: {first_line(error)}") from error
        if isinstance(error, SafetensorError):
            raise TokurError(f"the weights of {name} are damaged ({first_line(error)}); get them again") from error
        if (explained := explain_hub_error(error, name)) is not None:
            raise explained from error
        message = str(error)
        if "Some modules are dispatched on the CPU or the disk" in message:
            raise TokurError(
                f"{name} doesn't fit into the memory that weights may take, and what bitsandbytes quantises can't be "
                "kept elsewhere: allow more by --set weights_memory, or use weights that are not quantised"
            ) from error
        if "trust_remote_code" in message:
            raise TokurError(
                f"{name} brings its own Python code; a language model's runs with --trust-remote-code if you trust it"
            ) from error
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name
            and find_spec(library := error.name.split(".")[0]) is None
        ):
            raise TokurError(f"{name} needs {library}, which is not installed: pip install {library}") from error
        if "does not recognize this architecture" in message:
            raise TokurError(
                f"transformers {transformers.__version__} doesn't know the architecture of {name}; "
                "a newer one may (pip install -U transformers)"
            ) from error
        raise TokurError(f"{name} can't be loaded: {first_line(error)}") from error
