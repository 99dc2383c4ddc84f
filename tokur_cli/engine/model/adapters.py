"""Fine-tuned models that are kept as an adapter on another model, their base: PEFT puts it into the base's weights."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.errors import first_line
from tokur_cli.engine.model.find import ADAPTER_CONFIG, Source, find_source
from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

ADAPTER_WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class Adapter:
    """An adapter and what it is put on.

    Args:
        name: as the user typed it.
        source: where it is.
        kind: what PEFT calls it (``LORA``, ``IA3``).
        base: the model that it is put on.
        base_revision: the hub branch, tag or commit of that; None for what is newest, or for local files.
    """

    name: str
    source: Source
    kind: str
    base: str
    base_revision: str | None


def find_adapted(
    name: str, adapter: str | None, revision: str | None, progress: Callable[[str], None]
) -> tuple[Source, Adapter | None]:
    """Return where a model is and the adapter that belongs on it, if one does.

    Args:
        name: a model, or an adapter, whose config then names the model.
        adapter: an adapter that belongs on the model; None for none but what ``name`` may be.
        revision: of what ``name`` is.
        progress: told what is being done.

    Raises:
        UsageError: there is no PEFT, or a revision for local files.
        TokurError: there is no such model or adapter, or the adapter cannot be put on a model.
    """
    source = find_source(name, revision, progress)
    if not source.is_adapter:
        if adapter is None:
            return source, None
        found = find_source(adapter, None, progress)
        if not found.is_adapter:
            raise TokurError(f"{adapter} isn't an adapter: it has no {ADAPTER_CONFIG}; -m takes whole models")
        return source, _read(adapter, found, base=name, base_revision=revision)
    if adapter is not None:
        raise TokurError(f"{name} is an adapter itself, and --adapter {adapter} belongs on a whole model")
    own = _read(name, source)
    try:
        source = find_source(own.base, own.base_revision, progress)
        if source.is_adapter:
            raise TokurError("it is an adapter itself")
    except TokurError as error:
        raise TokurError(
            f"{name} is an adapter on {own.base}: {error}; -m MODEL --adapter {name} puts it on the model that you name"
        ) from error
    return source, own


def _read(name: str, source: Source, base: str | None = None, base_revision: str | None = None) -> Adapter:
    """Read what an adapter is; ``base`` is what it is put on, None for the model that its config names."""
    if find_spec("peft") is None:
        raise UsageError(f"{name} is an adapter, which needs PEFT: pip install 'tokur[adapters]'")
    try:
        config = json.loads(source.file(ADAPTER_CONFIG).read_bytes())
        kind, named = config["peft_type"], config.get("base_model_name_or_path")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise TokurError(f"{name}: its {ADAPTER_CONFIG} isn't one of PEFT's; get the adapter again") from None
    if base is None:
        if not isinstance(named, str) or not named:
            raise TokurError(
                f"{name}: its {ADAPTER_CONFIG} names no base model: -m MODEL --adapter {name} puts it on the model "
                "that you name"
            )
        base, base_revision = named, None if Path(named).expanduser().exists() else config.get("revision")
    return Adapter(name, source, str(kind), base, base_revision)


def merge_adapter(model: PreTrainedModel, adapter: Adapter, ids: Sequence[int]) -> PreTrainedModel:
    """Put an adapter into a model's weights; beside them, where they are quantised and would be rounded once more.

    Args:
        model: the base, which is changed.
        adapter: the adapter.
        ids: a few tokens, on which the merged model is compared with the one that has the adapter beside its weights.

    Raises:
        TokurError: it does not fit the model, is damaged, or cannot be merged.
    """
    import torch
    from peft import PeftConfig, get_peft_model
    from peft.utils import load_peft_weights

    from tokur_cli.engine.forward.batching import is_out_of_memory
    from tokur_cli.engine.forward.body import input_device
    from tokur_cli.engine.model.quantised import is_quantised
    from tokur_cli.engine.precision import rounding, tolerance

    folder = str(adapter.source.file(ADAPTER_CONFIG).parent)
    if not adapter.source.file(ADAPTER_WEIGHTS).exists():  # from the hub into the same folder
        raise TokurError(
            f"{adapter.name} has no {ADAPTER_WEIGHTS}; weights in pickle files can run code and aren't loaded"
        )
    weights: dict[str, Tensor] = load_peft_weights(folder, device="cpu")
    if damaged := [key for key, value in weights.items() if not value.isfinite().all()]:
        raise TokurError(f"{adapter.name} is damaged: {damaged[0]} has NaN or infinite entries; get it again")
    tokens = torch.tensor([list(ids)], device=input_device(model))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # what they warn of is looked for here
            config = PeftConfig.from_pretrained(folder)
            if config.is_prompt_learning:
                raise ValueError("it changes the prompt, not the weights")
            config.inference_mode = True
            if any(parameter.is_meta for parameter in model.parameters()):
                raise ValueError("these are kept elsewhere than they are computed with: save the merged model first")
            packed = is_quantised(model)
            _make_room(model, weights)
            beside: Any = get_peft_model(model, config)
            report = beside.load_adapter(folder, "default", torch_device="cpu")
            # PEFT writes embeddings of a changed size twice, once under the name that they have in training
            copies = _copies_for_tied_head(model, weights)
            unknown = [key for key in report.unexpected_keys if ".modules_to_save." not in key and key not in copies]
            if left := [*report.missing_keys, *unknown]:
                raise ValueError(f"{left[0]} is in only one of the two (of {len(left)} such weights)")
            if packed:
                if config.peft_type != "LORA" or config.alora_invocation_tokens is not None:
                    raise ValueError("these are quantised, and beside them only LoRA is a linear map of the inputs")
                adapted: PreTrainedModel = beside.base_model.model
            else:
                if not hasattr(beside.base_model, "merge_and_unload"):
                    raise ValueError("PEFT does not merge this kind")
                with beside.disable_adapter():
                    base = beside(input_ids=tokens).logits.float().log_softmax(-1)
                expected = beside(input_ids=tokens).logits.float().log_softmax(-1)
                adapted = beside.merge_and_unload()
                found = adapted(input_ids=tokens).logits.float().log_softmax(-1)
                # A divergence is as the square of a distance: a quarter of the way from the base is too far
                moved, divergence = _divergence(expected, base), _divergence(expected, found)
                if not divergence <= min(tolerance(adapted.dtype), max(rounding(adapted.dtype), moved / 16)):
                    raise ValueError(f"merged, it is {divergence:.2g} nats a token from what it is beside the weights")
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise TokurError(
            f"{adapter.name} ({adapter.kind}) can't be put into the weights of {adapter.base}: {first_line(error)}"
        ) from error
    frozen: PreTrainedModel = adapted.eval().requires_grad_(False)
    return frozen


def _divergence(log_p: Tensor, other: Tensor) -> float:
    """Return the largest KL(p ‖ p′) of a token, in nats, of (B, T, V) log-probabilities."""
    return float((log_p.exp() * (log_p - other)).sum(-1).max())


def _make_room(model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Give a model as many embeddings as an adapter brings, which may have been trained with tokens of its own."""
    tables = {module: name for name, module in model.named_modules()}
    embeddings: Any = model.get_input_embeddings()
    rows = {}
    for module in (embeddings, model.get_output_embeddings()):
        start = f"base_model.model.{tables[module]}."
        rows[module] = {
            len(value) for key, value in weights.items() if key.startswith(start) and key.endswith(".weight")
        }
    of_adapter = set().union(*rows.values())
    if of_adapter and of_adapter != {len(embeddings.weight)}:
        model.resize_token_embeddings(max(of_adapter), mean_resizing=False)
        if not model.config.get_text_config(decoder=True).tie_word_embeddings and set() in rows.values():
            raise ValueError("it has other tokens than its base, and embeddings of only one side")


def _copies_for_tied_head(model: PreTrainedModel, weights: dict[str, Tensor]) -> set[str]:
    """Return the names under which PEFT wrote the embeddings' weights a second time, for a head that shares them."""
    names = {module: f"base_model.model.{name}." for name, module in model.named_modules()}
    embeddings, head = names[model.get_input_embeddings()], names.get(model.get_output_embeddings())
    if head is None or not model.config.get_text_config(decoder=True).tie_word_embeddings:
        return set()
    twins = {key: embeddings + key.removeprefix(head) for key in weights if key.startswith(head)}
    return {key for key, twin in twins.items() if twin in weights and weights[key].equal(weights[twin])}
