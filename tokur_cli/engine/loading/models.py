"""From a model's name to the model and its tokenizer, ready for the engine."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli import __version__
from tokur_cli.engine.loading.adapted import Adapter, find_adapted, put_on
from tokur_cli.engine.loading.default_model import DEFAULT_MODEL
from tokur_cli.engine.loading.hardware import (
    Offload,
    leave_layers_on_disk,
    limit_kernel_caches,
    place_weights,
    resolve_dtype,
)
from tokur_cli.engine.loading.imports import import_transformers
from tokur_cli.engine.loading.sources import Source, explain_hub_error, first_line
from tokur_cli.engine.panics import is_panic
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from tokur_cli.engine.probe import Probe

__all__ = ["DEFAULT_MODEL", "LanguageModel", "load_language_model"]

CAUSAL_CLASS_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
CAUSAL, MULTIMODAL = "AutoModelForCausalLM", "AutoModelForMultimodalLM"  # of transformers
MOST_LAYERS = 2000  # twice as many as the deepest transformers that were tried
LAYER_COUNT_ENDINGS = ("layer", "layers", "depth", "blocks")
CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


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
            slowly, run.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: an unknown dtype or device, a revision for local files, or a library that is not installed.
        TokurError: the model can't be had, doesn't fit, isn't a causal language model, or doesn't run; says what to do.
    """
    source, own, config, found = _find(
        name, adapter, quantize, dtype, device_map, revision, trust_remote_code, progress
    )
    import torch

    from tokur_cli.engine.loading.quantised import multiply_unrounded
    from tokur_cli.engine.loading.reordered import reorder_weights
    from tokur_cli.engine.probe import probe_ids, probe_model
    from tokur_cli.engine.silenced import Silenced

    limit_kernel_caches()
    with explained_errors(label := source.label(found.base or name)):
        torch_dtype = getattr(torch, found.dtype)
        packed = hasattr(config, "quantization_config")
        # Libraries of quantised weights draw bars and banners, on standard output too
        with Silenced(f"the library of {label}'s weights", progress)() if packed else nullcontext():
            model = load_weights(
                source,
                label,
                config,
                torch_dtype,
                device_map,
                kind=_auto_class(config) or CAUSAL,
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
        empty = _empty(config, getattr(torch, found.dtype), trust_remote_code, _auto_class(config) or CAUSAL).eval()
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
        config = _causal_config(source, label, trust_remote_code)
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
            context_length=_context_length(config),
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


def load_weights(
    source: Source,
    name: str,
    config: PreTrainedConfig,
    dtype: torch.dtype,
    device_map: str,
    *,
    kind: str = CAUSAL,
    offload: Offload | None = None,
    quantize: str | None = None,
    unused: tuple[str, ...] = (),
    trust_remote_code: bool = False,
    layers_on_disk: bool = False,
) -> PreTrainedModel:
    """Load a model in evaluation mode, without gradients.

    Args:
        source: where it is.
        name: what the user typed.
        config: its config.
        dtype: of the weights.
        device_map: as ``load_language_model`` takes it.
        kind: the class of transformers that loads it; where that makes a model of texts alone and the weights are not
            named for it, they are loaded into the class that they were saved by.
        offload: as ``load_language_model`` takes it.
        quantize: likewise.
        unused: what the names of weights begin with that may be missing, since nothing is computed with them.
        trust_remote_code: run the model's own Python code.
        layers_on_disk: as ``load_language_model`` takes it.

    Raises:
        UsageError: what quantises them is not installed.
        TokurError: the weights don't fit in memory, don't fit the config, or are quantised already.
    """
    import transformers

    from tokur_cli.engine.loading.quantised import asked_for, bytes_of, check_method

    auto: Any = getattr(transformers, kind)
    packed = getattr(config, "quantization_config", None)
    if packed is None:
        empty = _empty(config, dtype, trust_remote_code, kind)
        weights_bytes = bytes_of(empty, quantize)
    elif quantize is not None:
        raise TokurError(f"the weights of {name} are quantised already: leave --quantize {quantize} out")
    else:
        check_method(packed, name)
        weights_bytes = 0  # the config's shapes don't tell what the packed weights take
    more = {} if quantize is None else {"quantization_config": asked_for(quantize, dtype)}
    if layers_on_disk:
        if not weights_bytes:
            raise TokurError(f"{name} is quantised: --backend vllm scores full weights alone, leave the option out")
        elsewhere = tempfile.mkdtemp(prefix="tokur-")
        atexit.register(shutil.rmtree, elsewhere, ignore_errors=True)
        placed = leave_layers_on_disk(empty, elsewhere)
    else:
        placed = place_weights(device_map, weights_bytes, offload)
    model, report = auto.from_pretrained(
        source.place,
        config=config,
        dtype=dtype,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        trust_remote_code=trust_remote_code,
        **more,
        **placed,
        **source.options,
    )
    if offload is None and not layers_on_disk and "disk" in getattr(model, "hf_device_map", {}).values():
        raise TokurError(
            f"{name} needs {weights_bytes / 1e9:.1f} GB, which can't be divided so that it fits on the GPUs; "
            "use a smaller model, a dtype of fewer bytes (--dtype bfloat16), --device-map cpu or --offload-dir"
        )
    # transformers fills missing and mismatched weights with random numbers.
    if missing := sorted(key for key in report["missing_keys"] if not key.startswith(unused)):
        whole = _architecture(config)
        if kind == CAUSAL and whole != type(model).__name__ and whole == _multimodal_class(config):
            del model
            return load_weights(
                source, name, config, dtype, device_map, kind=MULTIMODAL, offload=offload, quantize=quantize,
                unused=unused, trust_remote_code=trust_remote_code, layers_on_disk=layers_on_disk,
            )  # fmt: skip
        which = "" if packed is None else f", which transformers {transformers.__version__} does not find quantised"
        raise TokurError(
            f"{name} lacks weights that its config.json asks for: {missing[0]} (of {len(missing)} missing){which}"
        )
    if mismatched := sorted(report["mismatched_keys"]):
        weight, found, wanted = mismatched[0]
        raise TokurError(
            f"the weights of {name} don't fit its config.json: {weight} has the shape {tuple(found)}, "
            f"not {tuple(wanted)} (of {len(mismatched)} such weights)"
        )
    if (weight := _not_finite(model)) is not None:
        raise TokurError(f"the weights of {name} are damaged: {weight} has NaN or infinite entries; get them again")
    loaded: PreTrainedModel = model.eval().requires_grad_(False)
    return loaded


def _empty(config: PreTrainedConfig, dtype: torch.dtype, trust_remote_code: bool, kind: str) -> PreTrainedModel:
    """Return a model whose weights are not there."""
    import torch
    import transformers

    with torch.device("meta"):
        empty: PreTrainedModel = getattr(transformers, kind).from_config(
            config, dtype=dtype, trust_remote_code=trust_remote_code
        )
    return empty


def _architecture(config: PreTrainedConfig) -> str | None:
    """Return the class that a checkpoint was written by, as its config names it."""
    return next(iter(getattr(config, "architectures", None) or []), None)


def _not_finite(model: PreTrainedModel) -> str | None:
    """Return the name of a weight that holds NaN or infinity, if one does; a sum does not hide them, and is quick."""
    from tokur_cli.engine.loading.quantised import plain_parts

    for name, weight in model.named_parameters():
        for part in plain_parts(weight):
            countable = part.is_floating_point() and part.itemsize > 1 and part.device.type != "meta"
            if countable and not part.sum().isfinite() and not part.isfinite().all():
                return name
    return None


def refuse_endless(config_file: Path, name: str) -> None:
    """Refuse a config that asks for more layers than any model has, before they are built and fill the memory.

    Raises:
        TokurError: it does.
    """

    def check(fields: object) -> None:
        for field, value in fields.items() if isinstance(fields, dict) else ():
            if type(value) is int and value > MOST_LAYERS and field.endswith(LAYER_COUNT_ENDINGS):
                raise TokurError(f"{name}: its config.json has {field} {value:,}; at most {MOST_LAYERS:,} are loaded")
            check(value)

    with suppress(ValueError, RecursionError):  # told by who reads it next
        check(json.loads(config_file.read_bytes()))


def _causal_config(source: Source, name: str, trust_remote_code: bool) -> PreTrainedConfig:
    """Return a model's config; refuse models that don't predict the next token from the ones before it."""
    import transformers
    from transformers import AutoConfig

    refuse_endless(source.file(), name)
    config: PreTrainedConfig = AutoConfig.from_pretrained(
        source.place, trust_remote_code=trust_remote_code, **source.options
    )
    architectures = getattr(config, "architectures", None) or []
    known = _auto_class(config) is not None
    causal = not architectures or any(architecture.endswith(CAUSAL_CLASS_ENDINGS) for architecture in architectures)
    if config.is_encoder_decoder or not (known and (causal or CAUSAL in _own_classes(config))):
        what = architectures[0] if architectures else config.model_type
        if causal and not config.is_encoder_decoder:
            raise TokurError(
                f"{name} ({what}): transformers {transformers.__version__} loads no causal language model of the type "
                f"{config.model_type}; tokur needs one that predicts the next token"
            )
        raise TokurError(f"{name} ({what}) isn't a causal language model; tokur needs one that predicts the next token")
    return config


def _auto_class(config: PreTrainedConfig) -> str | None:
    """Return which of transformers' classes loads a model for texts; None if none does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or CAUSAL in _own_classes(config):
        return CAUSAL
    return MULTIMODAL if _multimodal_class(config) is not None else None


def _own_classes(config: PreTrainedConfig) -> Mapping[str, Any]:
    """Return the classes that a model's own Python code has for transformers' ones."""
    return getattr(config, "auto_map", None) or {}


def _multimodal_class(config: PreTrainedConfig) -> str | None:
    """Return the class of models of this type that take images or sound beside texts."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

    return MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES.get(config.model_type)


def _context_length(config: PreTrainedConfig) -> int | None:
    for part in (config, config.get_text_config(decoder=True)):
        for field in CONTEXT_LENGTH_FIELDS:
            if isinstance(length := getattr(part, field, None), int):
                return length
    return None


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
