"""What every baseline is made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokur_cli.commands.options.scoring import BaselineOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.tokens import ResponseTokenizer


@dataclass(frozen=True)
class Setup:
    """What every baseline is made with.

    Args:
        options: how the features are computed.
        language_model: the model, asked with its mean weights; other models are put on its device.
        tokenizer: its tokenizer.
        batch_tokens: positions in a batch.
        progress: told what is loaded.
        note: told what the user should know, in a sentence.
    """

    options: BaselineOptions
    language_model: LanguageModel
    tokenizer: ResponseTokenizer
    batch_tokens: int
    progress: Progress
    note: Callable[[str], None]
