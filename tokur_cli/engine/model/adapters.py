"""Fine-tuned models that are kept as an adapter on another model, their base: PEFT puts it into the base's weights."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tokur_cli.engine.model.find import ADAPTER_CONFIG, ADAPTER_WEIGHTS, Source
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def merge_adapter(
    model: PreTrainedModel, adapter: Source, base: Source, tokenizer: PreTrainedTokenizerBase
) -> PreTrainedModel:
    """Put an adapter into a model's weights; beside them, where they are quantised and would be rounded once more.

    Args:
        model: the base, which is changed.
        adapter: where the adapter is.
        base: where the base is, for messages.
        tokenizer: for the text on which the merged model is compared with the one that has the adapter beside.

    Raises:
        TokurError: it does not fit the model, is damaged, or cannot be merged.
    """
    import torch
    from peft import PeftConfig, get_peft_model
    from peft.utils import load_peft_weights

    from tokur_cli.engine.forward.batching import refusing
    from tokur_cli.engine.forward.body import input_device
    from tokur_cli.engine.forward.probe import probe_ids, tolerance
    from tokur_cli.engine.model.linear import is_quantised

    ids = torch.tensor([list(probe_ids(tokenizer))], device=input_device(model))

    def predictions(adapted: Any) -> Tensor:
        log_p: Tensor = adapted(input_ids=ids).logits.float().log_softmax(-1)  # (1, T, V)
        return log_p

    with refusing(lambda why: TokurError(f"{adapter.name} can't be put into {base.name} ({why})")):
        folder = str(adapter.file(ADAPTER_CONFIG).parent)
        adapter.file(ADAPTER_WEIGHTS)  # without which PEFT would take pickled ones, which can run code
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # what they warn of is looked for here
            config = PeftConfig.from_pretrained(folder)
            config.inference_mode = True
            if config.is_prompt_learning or any(parameter.is_meta for parameter in model.parameters()):
                raise ValueError("it changes the prompt, or weights are kept on disk")
            packed = is_quantised(model)
            _make_room(model, load_peft_weights(folder, device="cpu"))
            beside: Any = get_peft_model(model, config)
            report = beside.load_adapter(folder, "default", torch_device="cpu")
            # Embeddings of a changed size are written a second time, under the name that they have in training
            unknown = [key for key in report.unexpected_keys if beside.base_model.prefix in key]
            if left := [*report.missing_keys, *unknown]:
                raise ValueError(f"{left[0]} is in only one of the two (of {len(left)} such weights)")
            if packed:
                if config.peft_type != "LORA" or config.alora_invocation_tokens is not None:
                    raise ValueError("these are quantised, and beside them only LoRA is a linear map of the inputs")
                adapted: PreTrainedModel = beside.base_model.model
            else:
                with beside.disable_adapter():
                    without = predictions(beside)
                expected = predictions(beside)
                adapted = beside.merge_and_unload()
                # A divergence is as the square of a distance: a quarter of the way from the base is too far, but not
                # what rounding makes of a deep model
                moved, off = (
                    float((expected.exp() * (expected - other)).sum(-1).max())  # of a token, in nats
                    for other in (without, predictions(adapted))
                )
                most = tolerance(adapted.dtype)
                if not off <= min(most, max(most / 10, moved / 16)):
                    raise ValueError(f"merged, it is {off:.2g} nats a token from what it is beside the weights")
    whole: PreTrainedModel = adapted.eval().requires_grad_(False)
    return whole


def _make_room(model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Give a model as many embeddings as an adapter brings, which may have been trained with tokens of its own."""
    names = {module: f"base_model.model.{name}." for name, module in model.named_modules()}
    embeddings: Any = model.get_input_embeddings()
    sides = [
        {
            len(value)
            for key, value in weights.items()
            if key.startswith(names[module]) and key.endswith(".weight") and ".lora_" not in key
        }
        for module in (embeddings, model.get_output_embeddings())
    ]
    rows = set().union(*sides)
    if rows and rows != {len(embeddings.weight)}:
        model.resize_token_embeddings(max(rows), mean_resizing=False)
        if not model.config.get_text_config(decoder=True).tie_word_embeddings and set() in sides:
            raise ValueError("it has other tokens than its base, and embeddings of only one side")
