"""Rows as people have them: recognised by their fields and read as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokur_cli.records.formats import conversations, datasets
from tokur_cli.records.formats.base import Format, Given
from tokur_cli.records.formats.chat_api import CALLS, COMPLETIONS, OPENAI_BATCH
from tokur_cli.records.formats.everyday import row_format
from tokur_cli.records.formats.inspect import INSPECT
from tokur_cli.records.formats.lm_eval import LM_EVAL

NATIVE = row_format(
    "tokur",
    "tokur's own: id, question (or messages, or prompt), response, reference",
    lambda fields: isinstance(fields.get("tokur"), dict),
    lambda record: record,
    logprobs=("logprobs",),
)

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        NATIVE,
        OPENAI_BATCH,
        COMPLETIONS,
        CALLS,
        LM_EVAL,
        INSPECT,
        datasets.HUMANEVAL,
        datasets.SVAMP,
        datasets.MATH,
        datasets.GYM,
        datasets.CHOICES,
        datasets.GSM8K,
        conversations.LLM,
        datasets.PROMPT_COMPLETION,
        datasets.MESSAGES,
        conversations.SHAREGPT,
        conversations.ALPACA,
        conversations.OPENCOMPASS,
        conversations.INPUT_OUTPUT,
    )
}
"""Every format by name, for ``--format`` and its help; the first that recognises a stream's first row is taken."""


def recognise(fields: Mapping[str, Any]) -> Format:
    """Return the format of rows with these fields; tokur's own if no other fits."""
    return next((form for form in FORMATS.values() if form.recognises(fields)), NATIVE)


def verdicts_of(fields: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return what the program that wrote a row says of right and wrong, by the path to each, and whether it failed."""
    formats = [form for form in FORMATS.values() if form.recognises(fields)]
    said = next((said for form in formats if (said := form.verdicts(fields))), {})
    return said, any(form.failed(fields) for form in formats)


__all__ = ["FORMATS", "NATIVE", "Format", "Given", "recognise", "verdicts_of"]
