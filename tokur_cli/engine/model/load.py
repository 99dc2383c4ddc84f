"""From what is asked for to the model and its tokenizer, ready for the engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from tokur_cli import __version__
from tokur_cli.engine.model.adapters import merge_adapter
from tokur_cli.engine.model.errors import explained_errors
from tokur_cli.engine.model.find import (
    TOKENIZER_CONFIG,
    Source,
    auto_classes,
    causal_config,
    context_length_of,
    find_adapted,
)
from tokur_cli.engine.model.imports import import_transformers
from tokur_cli.engine.model.place import leave_layers_on_disk, limit_kernel_caches, place_weights, resolve_dtype
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from tokur_cli.engine.forward.probe import Probe


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
        vocabulary_size: how many token ids it takes, not always the tokenizer's; None if its config does not say.
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
    def identity(self) -> dict[str, Any]:
        """What tells the model and its weights from others."""
        base = {} if self.base is None else {"base": self.base, "base_revision": self.base_revision}
        quantized = {} if self.quantize is None else {"quantize": self.quantize}
        return {"model": self.name, "revision": self.revision, **base, "dtype": self.dtype, **quantized}

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
        from tokur_cli.engine.forward.body import input_device

        return input_device(self.model)


def load_language_model(
    request: ModelRequest,
    *,
    layers_on_disk: bool = False,
    check: Callable[[ModelDescription], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> LanguageModel:
    """Load a causal language model.

    Args:
        request: which one, and how.
        layers_on_disk: leave the layers where they are, since another engine has them in memory; they can be read and,
            slowly, run. (transformers cannot leave quantised ones there.)
        check: called before the weights are loaded, which takes long: raises what the model is not fit for.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: a revision for local files, or an offload folder for one device.
        TokurError: the model can't be had, doesn't fit, isn't a causal language model, or doesn't run; says what to do.
    """
    source, adapter, config, found = _find(request, progress)
    check(found)
    from tokur_cli.engine.forward.probe import probe_ids, probe_model
    from tokur_cli.engine.model.quantised import multiply_unrounded
    from tokur_cli.engine.model.reordered import reorder_weights
    from tokur_cli.engine.output import Silenced

    limit_kernel_caches()
    # Libraries of quantised weights draw bars and banners, on standard output too, some when they first compute
    packed = hasattr(config, "quantization_config")
    quiet = Silenced(f"the library of {source.name}'s weights", progress)() if packed else nullcontext()
    with explained_errors(source.name), quiet:
        model = _load(source, config, found.dtype, request, layers_on_disk)
        multiply_unrounded(model)
        if adapter is not None:
            model = merge_adapter(model, adapter, source, probe_ids(found.tokenizer))
        reorder_weights(model)
        return LanguageModel(**vars(found), model=model, probe=probe_model(found.name, model, found.tokenizer))


def describe_model(request: ModelRequest, progress: Callable[[str], None] = lambda _: None) -> ModelDescription:
    """Find a model as ``load_language_model`` does, without loading the weights; raises the same."""
    return _find(request, progress)[-1]


def _find(
    request: ModelRequest, progress: Callable[[str], None]
) -> tuple[Source, Source | None, PreTrainedConfig, ModelDescription]:
    """Return where a model is, the adapter that belongs on it, its config, and all of it but its weights."""
    with explained_errors(request.name):
        source, adapter = find_adapted(request.name, request.adapter, request.revision, progress)
    import_transformers()
    import transformers

    from tokur_cli.engine.text.chat import end_token_ids

    own = adapter or source
    auto: Any = transformers.GenerationConfig
    with explained_errors(source.name):
        config = causal_config(source, request.trust_remote_code)
        generation = None
        with suppress(OSError):  # a model without one
            generation = auto.from_pretrained(source.place, revision=source.revision)
        has_tokenizer = adapter is not None and TOKENIZER_CONFIG in adapter.files
        tokenizer = load_tokenizer(own if has_tokenizer else source, request.trust_remote_code)
        vocabulary_size = getattr(config.get_text_config(decoder=True), "vocab_size", None)
        if adapter and vocabulary_size is not None:  # it may bring tokens of its own
            vocabulary_size = max(vocabulary_size, len(tokenizer))
        found = ModelDescription(
            place=source.place,
            tokenizer=tokenizer,
            name=own.name,
            revision=own.revision,
            dtype=str(resolve_dtype(request.dtype, request.device_map)).removeprefix("torch."),
            context_length=context_length_of(config),
            end_ids=end_token_ids(generation, config, tokenizer),
            vocabulary_size=vocabulary_size,
            trust_remote_code=request.trust_remote_code,
            base=source.name if adapter else None,
            base_revision=source.revision if adapter else None,
            quantize=request.quantize,
        )
    return source, adapter, config, found


def load_tokenizer(source: Source, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer.

    Raises:
        TokurError: there is none.
    """
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        source.place, revision=source.revision, trust_remote_code=trust_remote_code
    )
    # Where the files are missing, transformers makes some families a tokenizer of nothing but special tokens.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise TokurError(f"{source.name} has no tokenizer that can be read: its tokenizer.json is missing or damaged")
    return tokenizer


def _load(
    source: Source, config: PreTrainedConfig, dtype: str, request: ModelRequest, layers_on_disk: bool
) -> PreTrainedModel:
    """Load the weights, into the first of the classes for texts that has all of them.

    Raises:
        TokurError: the weights don't fit in memory, don't fit the config, or are quantised already.
    """
    import torch
    import transformers

    from tokur_cli.engine.model.quantised import check_method, quantisation_config

    name, quantize, packed = source.name, request.quantize, getattr(config, "quantization_config", None)
    options: dict[str, Any] = {"dtype": getattr(torch, dtype), "trust_remote_code": request.trust_remote_code}
    kind, *others = auto_classes(config)
    empty = None
    if packed is not None:
        if quantize is not None:
            raise TokurError(f"the weights of {name} are quantised already: leave --quantize {quantize} out")
        check_method(packed, name)
    elif quantize is not None:
        options["quantization_config"] = quantisation_config(quantize, options["dtype"])
    else:  # whose shapes tell what the weights take
        with torch.device("meta"):
            empty = getattr(transformers, kind).from_config(config, **options)
    if layers_on_disk and empty is not None:
        options |= leave_layers_on_disk(empty)
    else:
        options |= place_weights(request, sum(each.nbytes for each in empty.parameters()) if empty is not None else 0)
    try:
        model = load_checked(source, kind, config=config, **options)
    except MissingWeights:
        if not others:
            raise
        model = load_checked(source, others[0], config=config, **options)
    if request.offload_dir is None and not layers_on_disk and "disk" in getattr(model, "hf_device_map", {}).values():
        raise TokurError(
            f"{name} doesn't fit on the GPUs; use a smaller model, --dtype bfloat16, --device-map cpu or "
            "--set offload_dir"
        )
    text = model.config.get_text_config(decoder=True)
    if getattr(text, "attn_logit_softcapping", None) is not None and text._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")  # before 5.24, transformers leaves the cap out there
    return model


class MissingWeights(TokurError):
    """Weights that a config asks for are not there."""


def load_checked(source: Source, kind: str, *, unused: tuple[str, ...] = (), **options: Any) -> PreTrainedModel:
    """Load a model by one of transformers' classes, in evaluation mode, without gradients.

    Args:
        source: where it is.
        kind: the class.
        unused: what the names of weights begin with that may be missing, since nothing is computed with them.
        options: for ``from_pretrained``.

    Raises:
        MissingWeights: some are, which transformers fills with random numbers.
        TokurError: the weights don't fit the config, or are damaged.
    """
    import transformers

    model, report = getattr(transformers, kind).from_pretrained(
        source.place,
        revision=source.revision,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **options,
    )
    if missing := sorted(key for key in report["missing_keys"] if not key.startswith(unused)):
        del model  # which whoever tries another class has no room for
        raise MissingWeights(f"{source.name} lacks weights that its config.json asks for: {missing[0]} and so on")
    if mismatched := sorted(report["mismatched_keys"]):
        weight, found, wanted = mismatched[0]
        raise TokurError(
            f"the weights of {source.name} don't fit its config.json: {weight} has the shape {tuple(found)}, "
            f"not {tuple(wanted)}"
        )
    if (weight := not_finite(model)) is not None:
        raise TokurError(
            f"the weights of {source.name} are damaged: {weight} has NaN or infinite entries; get them again"
        )
    loaded: PreTrainedModel = model.eval().requires_grad_(False)
    return loaded


def not_finite(model: PreTrainedModel) -> str | None:
    """Return the name of a weight that holds NaN or infinity, if one does; a sum does not hide them, and is quick."""
    from tokur_cli.engine.model.quantised import plain_tensors

    for name, weight in model.named_parameters():
        for tensor in plain_tensors(weight):
            countable = tensor.is_floating_point() and tensor.itemsize > 1 and tensor.device.type != "meta"
            if countable and not tensor.sum().isfinite() and not tensor.isfinite().all():
                return name
    return None
