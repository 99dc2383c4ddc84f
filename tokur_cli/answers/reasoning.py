"""A model's reasoning, which is not its answer, in the tags of all models that are known to write some.

The spellings are those of vLLM's and SGLang's reasoning parsers and of the models' own chat templates.
"""

from __future__ import annotations

import re

FORMS: tuple[tuple[str, str], ...] = (
    # DeepSeek-R1, Qwen, EXAONE, GLM, Seed-OSS, MiniMax, LongCat and all that is prompted for such tags
    (
        r"<(?:seed:|mm:|longcat_)?(?i:think(?:ing)?|thoughts?|reasoning|redacted_thinking)>",
        r"</(?:seed:|mm:|longcat_)?(?i:think(?:ing)?|thoughts?|reasoning|redacted_thinking)>",
    ),
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    (r"◁think▷", r"◁/think▷"),  # Kimi
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThoughts, Sky-T1
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere's Command A
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    (r"<\|channel>thought\b", r"<channel\|>"),  # Gemma 4
    (r"<unused94>thought\b", r"<unused95>"),  # MedGemma
    (r"\[unused16\]", r"\[unused17\]"),  # Pangu
    (r"(?:analysis|commentary)<\|message\|>", r"final<\|message\|>"),  # gpt-oss
    (r"\Aanalysis(?=[A-Z])", r"assistantfinal"),  # gpt-oss without its special tokens
    (r"Here(?: is|'s|’s) my thought process:", r"Here(?: is|'s|’s) my response:"),  # Granite
)
"""Regular expressions of what opens and what closes a model's reasoning."""

_OPENING = re.compile("|".join(opening for opening, _ in FORMS))
_CLOSING = re.compile("|".join(closing for _, closing in FORMS))
_AROUND_ANSWER = re.compile(r"<\|(?:(?:begin|end)_of_solution|(?:START|END)_(?:RESPONSE|TEXT))\|>")


def without_reasoning(response: str) -> str:
    """Return what a response says behind its reasoning; nothing where it ends within it.

    Reasoning whose opening the chat template has written, not the response, ends at its closing as well.
    """
    start = max((closing.end() for closing in _CLOSING.finditer(response)), default=0)
    if _OPENING.search(response, start):
        return ""
    return _AROUND_ANSWER.sub("", response[start:])
