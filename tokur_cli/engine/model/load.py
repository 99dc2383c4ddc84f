"""From what is asked for to the model and its tokenizer, ready for the engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.adapters import merge_adapter
from tokur_cli.engine.model.errors import explained_errors
from tokur_cli.engine.model.find import TOKENIZER_CONFIG, Source, causal_config, find_adapted
from tokur_cli.engine.model.place import import_transformers, place_weights, resolve_dtype
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from tokur_cli.engine.forward.probe import Probe

CONTEXT_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
QUANTISED: dict[str, dict[str, Any]] = {  # by bitsandbytes; 4 bits as QLoRA has them
    "8bit": {"load_in_8bit": True},
    "4bit": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
}


@dataclass(frozen=True)
class ModelDescription:
    """All of a causal language model but its weights, for whoever loads those in a way of its own."""

    request: ModelRequest  # which one was asked for, and how
    source: Source  # where it is; of an adapter, the model that this is put on
    adapter: Source | None  # where that is; None for a whole model
    config: PreTrainedConfig  # the model's
    kinds: tuple[str, ...]  # transformers' classes for it, of which the first loads it that finds all of its weights
    tokenizer: PreTrainedTokenizerBase
    dtype: str  # of the weights: ``bfloat16``, ``float32`` or ``float16``
    end_ids: tuple[int, ...]  # the tokens that end its responses

    @property
    def name(self) -> str:
        """Its name in records: what the user typed."""
        return (self.adapter or self.source).name

    @property
    def context_length(self) -> int | None:
        """How many positions it has; None for any number."""
        configs = self.config, self.config.get_text_config(decoder=True)
        lengths = [getattr(each, field, None) for each in configs for field in CONTEXT_LENGTH_FIELDS]
        return next((length for length in lengths if isinstance(length, int)), None)

    @property
    def vocabulary_size(self) -> int | None:
        """How many token ids it takes, not always the tokenizer's; None if its config does not say."""
        size: int | None = getattr(self.config.get_text_config(decoder=True), "vocab_size", None)
        return max(size, len(self.tokenizer)) if size and self.adapter else size  # it may bring tokens of its own

    @property
    def identity(self) -> dict[str, Any]:
        """What tells the model and its weights from others: for a hub model, with its commit."""
        source, own, quantize = self.source, self.adapter or self.source, self.request.quantize
        base = {"base": source.name, "base_revision": source.revision} if self.adapter else {}
        quantized = {"quantize": quantize} if quantize else {}
        return {"model": own.name, "revision": own.revision, **base, "dtype": self.dtype, **quantized}


@dataclass(frozen=True)
class LanguageModel(ModelDescription):
    """A causal language model in evaluation mode, without gradients."""

    model: PreTrainedModel  # the model, on its device or devices
    probe: Probe  # what it makes of a few tokens, which is asked for before it scores or generates
    device: torch.device  # where token ids go


def describe_model(request: ModelRequest, progress: Callable[[str], None] = lambda _: None) -> ModelDescription:
    """Find a causal language model, without loading its weights; raises what ``load_language_model`` raises."""
    with explained_errors(request.name):
        source, adapter = find_adapted(request, progress)
    import_transformers()
    import transformers

    from tokur_cli.engine.text.chat import end_token_ids

    with explained_errors(source.name):
        config, kinds = causal_config(source, request.trust_remote_code)
        generation = None
        with suppress(OSError):  # a model without one
            generation = source.load(transformers.GenerationConfig)
        own = adapter if adapter is not None and TOKENIZER_CONFIG in adapter.files else source
        tokenizer = load_tokenizer(own, request.trust_remote_code)
        dtype = resolve_dtype(request.dtype, request.device_map)
        end_ids = end_token_ids(generation, config, tokenizer)
    return ModelDescription(request, source, adapter, config, kinds, tokenizer, dtype, end_ids)


def load_language_model(
    request: ModelRequest,
    *,
    check: Callable[[ModelDescription], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> LanguageModel:
    """Load a causal language model.

    Args:
        request: which one, and how.
        check: called before the weights are loaded, which takes long: raises what the model is not fit for.
        progress: called with short sentences on what is being done.

    Raises:
        UsageError: a revision for local files, or an offload folder for one device.
        TokurError: the model can't be had, doesn't fit, isn't a causal language model, or doesn't run; says what to do.
    """
    found = describe_model(request, progress)
    check(found)
    from tokur_cli.engine.forward.body import input_device
    from tokur_cli.engine.forward.probe import probe_model
    from tokur_cli.engine.model.linear import multiply_unrounded, reorder_weights
    from tokur_cli.engine.output import silencer

    # Libraries of quantised weights draw bars and banners, on standard output too, some when they first compute
    packed = hasattr(found.config, "quantization_config")
    quiet = silencer(f"the library of {found.source.name}'s weights", progress)() if packed else nullcontext()
    with explained_errors(found.source.name), quiet:
        model = _load_weights(found)
        multiply_unrounded(model)
        if found.adapter is not None:
            model = merge_adapter(model, found.adapter, found.source, found.tokenizer)
        reorder_weights(model)
        probe = probe_model(found.name, model, found.tokenizer)
        return LanguageModel(**vars(found), model=model, probe=probe, device=input_device(model))


def load_tokenizer(source: Source, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer.

    Raises:
        TokurError: there is none.
    """
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = source.load(AutoTokenizer, trust_remote_code=trust_remote_code)
    # Where the files are missing, transformers makes some families a tokenizer of nothing but special tokens.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise TokurError(f"{source.name} has no tokenizer that can be read: its tokenizer.json is missing or damaged")
    return tokenizer


def _load_weights(found: ModelDescription) -> PreTrainedModel:
    """Load the model itself.

    Raises:
        TokurError: the weights don't fit in memory, don't fit the config, or are quantised in another way.
    """
    import torch
    import transformers

    request, name = found.request, found.source.name
    dtype: torch.dtype = getattr(torch, found.dtype)
    options: dict[str, Any] = {"config": found.config, "dtype": dtype, "trust_remote_code": request.trust_remote_code}
    weights_bytes = 0
    if packed := getattr(found.config, "quantization_config", None):
        if request.quantize is not None:
            raise TokurError(f"the weights of {name} are quantised already: leave --quantize {request.quantize} out")
        quantizer: Any = transformers.quantizers.auto.AutoHfQuantizer
        fields = packed if isinstance(packed, dict) else packed.to_dict()
        if not quantizer.supports_quant_method(fields):  # transformers would read such weights as they are
            method, version = fields.get("quant_method"), transformers.__version__
            raise TokurError(f"{name} is quantised by {method}, which transformers {version} does not load")
    elif request.quantize is not None:
        by = QUANTISED[request.quantize]
        options["quantization_config"] = transformers.BitsAndBytesConfig(**by, bnb_4bit_compute_dtype=dtype)
    else:
        with torch.device("meta"):
            empty = getattr(transformers, found.kinds[0]).from_config(**options)
        weights_bytes = sum(each.nbytes for each in empty.parameters())
    options |= place_weights(request, weights_bytes)
    model = load_checked(found.source, *found.kinds, **options)
    if request.offload_dir is None and "disk" in getattr(model, "hf_device_map", {}).values():
        raise TokurError(f"{name} doesn't fit on the GPUs; use --dtype bfloat16, --device-map cpu or --set offload_dir")
    text = model.config.get_text_config(decoder=True)
    if getattr(text, "attn_logit_softcapping", None) is not None and text._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")  # before 5.24, transformers leaves the cap out there
    return model


def load_checked(source: Source, *kinds: str, **options: Any) -> PreTrainedModel:
    """Load a model in evaluation mode, without gradients.

    Args:
        source: where it is.
        kinds: transformers' classes, of which the first loads it that finds all of its weights.
        options: for ``from_pretrained``.

    Raises:
        TokurError: weights are missing, which transformers fills with random numbers, don't fit the config, or are
            damaged.
    """
    import transformers

    from tokur_cli.engine.model.linear import plain_tensors

    for kind in kinds:
        model = None  # the one before, whose room is needed
        reporting = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
        model, report = source.load(getattr(transformers, kind), **reporting, **options)
        # Nothing reads what BERT's pooler makes of the first token
        missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
        if not missing:
            break
    else:
        raise TokurError(f"{source.name} lacks weights that its config.json asks for: {missing[0]} and so on")
    if mismatched := sorted(report["mismatched_keys"]):
        weight, found, wanted = mismatched[0]
        raise TokurError(
            f"the weights of {source.name} don't fit its config.json: {weight} has the shape {tuple(found)}, "
            f"not {tuple(wanted)}"
        )
    for name, weight in model.named_parameters():
        for tensor in plain_tensors(weight):
            countable = tensor.is_floating_point() and tensor.itemsize > 1 and not tensor.is_meta
            # A sum hides none of them, and is quick
            if countable and not tensor.sum().isfinite() and not tensor.isfinite().all():
                raise TokurError(
                    f"the weights of {source.name} are damaged: {name} has NaN or infinite entries; get them again"
                )
    loaded: PreTrainedModel = model.eval().requires_grad_(False)
    return loaded
