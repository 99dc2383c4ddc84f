"""Texts and pairs of texts through an encoder model, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tokur_cli.engine.halving import Batches
from tokur_cli.records.errors import TokurError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BATCH_TOKENS = 8192


class TextReader:
    """An encoder model with its tokenizer, which reads texts.

    Args:
        model: the model, in evaluation mode.
        tokenizer: its tokenizer.
        name: what the user typed, for messages.
        most_tokens: a limit of its own on the tokens of a text, None for no other than the model's.
        progress: told once if a text is cut off.

    Attributes:
        most_tokens: what is behind it in a text or pair isn't read.
        truncated: how many texts or pairs were cut off so far.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        name: str,
        most_tokens: int | None,
        progress: Callable[[str], None],
    ) -> None:
        if tokenizer.pad_token_id is None:
            raise TokurError(f"{name} has no padding token, so it can't read texts in batches; use another model")
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.most_tokens = min(_most_tokens(model, tokenizer), most_tokens or tokenizer.model_max_length)
        self.truncated = 0
        self._progress = progress
        self._batches = Batches(BATCH_TOKENS)

    def read(self, items: Sequence[tuple[str, ...]], output: Callable[[Any, Tensor], Tensor]) -> list[Tensor]:
        """Return what the model says to each text or pair.

        Args:
            items: (text,) or (text, second text) each, all alike.
            output: from the model's outputs and the attention mask (B, L) to what is wanted of a batch, (B, …).

        Returns:
            A float32 tensor an item, on the CPU.

        Raises:
            TokurError: memory doesn't suffice for an item alone, or one has no tokens.
        """
        encoded = self._encode(items)
        device = next(self.model.get_input_embeddings().parameters()).device

        @torch.inference_mode()
        def compute(batch: list[int]) -> Sequence[Tensor]:
            padded = [encoded[index] for index in batch]
            # On the left, padding would move the absolute positions of the texts
            inputs = self.tokenizer.pad(padded, padding_side="right", return_tensors="pt").to(device)
            return list(output(self.model(**inputs), inputs["attention_mask"]).float().cpu())

        results = []
        for result in self._batches.run([inputs["input_ids"] for inputs in encoded], compute):
            if isinstance(result, TokurError):
                raise TokurError(f"{self.name}: {result}") from result
            results.append(result)
        return results

    def _encode(self, items: Sequence[tuple[str, ...]]) -> list[dict[str, list[int]]]:
        encoded = [dict(self.tokenizer(*item)) for item in items]
        for index, inputs in enumerate(encoded):
            if not inputs["input_ids"]:
                raise TokurError(f"{self.name} has no token for an empty text; use another model")
            if len(inputs["input_ids"]) > self.most_tokens:
                if self.truncated == 0:
                    self._progress(
                        f"{self.name} reads {self.most_tokens} tokens; the rest of longer texts isn't compared"
                    )
                self.truncated += 1
                encoded[index] = dict(self.tokenizer(*items[index], truncation=True, max_length=self.most_tokens))
        return encoded


def _most_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return how long a text may be; a table of positions may begin with some that no token takes (RoBERTa's)."""
    limits = [tokenizer.model_max_length]
    if isinstance(configured := getattr(model.config, "max_position_embeddings", None), int):
        limits.append(configured)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            unused = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - unused)
    return min(limits)
