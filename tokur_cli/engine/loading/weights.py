"""From a model's files to the model, on its devices."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.loading.configs import CAUSAL, MULTIMODAL, architecture, multimodal_class
from tokur_cli.engine.loading.hardware import Offload, leave_layers_on_disk, place_weights
from tokur_cli.engine.loading.sources import Source
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel


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
        empty = empty_model(config, dtype, trust_remote_code, kind)
        weights_bytes = bytes_of(empty, quantize)
    elif quantize is not None:
        raise TokurError(f"the weights of {name} are quantised already: leave --quantize {quantize} out")
    else:
        check_method(packed, name)
        weights_bytes = 0  # the config's shapes don't tell what the packed weights take
    more = {} if quantize is None else {"quantization_config": asked_for(quantize, dtype)}
    if layers_on_disk and packed is None:
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
            "use a smaller model, a dtype of fewer bytes (--dtype bfloat16), --device-map cpu or --set offload_dir"
        )
    # transformers fills missing and mismatched weights with random numbers.
    if missing := sorted(key for key in report["missing_keys"] if not key.startswith(unused)):
        whole = architecture(config)
        if kind == CAUSAL and whole != type(model).__name__ and whole == multimodal_class(config):
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
    text = model.config.get_text_config(decoder=True)
    if getattr(text, "attn_logit_softcapping", None) is not None and text._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")  # before 5.24, transformers leaves the cap out there
    loaded: PreTrainedModel = model.eval().requires_grad_(False)
    return loaded


def empty_model(config: PreTrainedConfig, dtype: torch.dtype, trust_remote_code: bool, kind: str) -> PreTrainedModel:
    """Return a model whose weights are not there."""
    import torch
    import transformers

    with torch.device("meta"):
        empty: PreTrainedModel = getattr(transformers, kind).from_config(
            config, dtype=dtype, trust_remote_code=trust_remote_code
        )
    return empty


def _not_finite(model: PreTrainedModel) -> str | None:
    """Return the name of a weight that holds NaN or infinity, if one does; a sum does not hide them, and is quick."""
    from tokur_cli.engine.loading.quantised import plain_parts

    for name, weight in model.named_parameters():
        for part in plain_parts(weight):
            countable = part.is_floating_point() and part.itemsize > 1 and part.device.type != "meta"
            if countable and not part.sum().isfinite() and not part.isfinite().all():
                return name
    return None
