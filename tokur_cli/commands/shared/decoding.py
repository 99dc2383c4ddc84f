"""A decoder that fits the device that a model is on."""

from __future__ import annotations

from collections.abc import Callable

from tokur_cli.engine.generation.attention import obstacle
from tokur_cli.engine.generation.decoder import Decoder
from tokur_cli.engine.generation.sampling import Sampling
from tokur_cli.engine.loading.models import LanguageModel
from tokur_cli.engine.memory import available_bytes
from tokur_cli.engine.tokens import ResponseTokenizer

_ROWS = 256  # beyond them a further row gains little
_CACHE_SHARE = 0.5  # of the memory that is free once the model is loaded


def make_decoder(
    language_model: LanguageModel,
    tokenizer: ResponseTokenizer,
    sampling: Sampling,
    *,
    note: Callable[[str], None],
    max_new_tokens: int,
    stop: tuple[str, ...] = (),
    step_ends: tuple[str, ...] = (),
    step_tokens: int | None = None,
    max_rows: int | None = None,
    max_memory_gib: float | None = None,
) -> Decoder:
    """Return a decoder.

    Args:
        language_model: the model.
        tokenizer: its tokenizer.
        sampling: how tokens are chosen.
        note: told what the user should know, in a sentence.
        max_new_tokens: the longest response.
        stop: strings that end a response.
        step_ends: strings that end a step of one.
        step_tokens: the longest step; None for any length.
        max_rows: responses generated at once; None for what suits the device.
        max_memory_gib: GiB for keys and values; None for half of what is free.

    Raises:
        TokurError: generating as tokur does it would give this model other probabilities.
    """
    language_model.probe.check_generation()
    if (why := obstacle()) is not None:  # known now, since that has generated
        note(f"{why}: generating may take 1.4 times as long")
    device = language_model.device
    if max_memory_gib is None:
        cache_bytes = int(available_bytes(device) * _CACHE_SHARE)
    else:
        cache_bytes = int(max_memory_gib * 2**30)
    return Decoder(
        language_model.model,
        tokenizer.decode,
        sampling,
        end_ids=frozenset(language_model.end_ids),
        max_new_tokens=max_new_tokens,
        context_length=language_model.context_length,
        stop=stop,
        step_ends=step_ends,
        step_tokens=step_tokens,
        max_rows=max_rows or _ROWS,
        cache_bytes=cache_bytes,
    )
