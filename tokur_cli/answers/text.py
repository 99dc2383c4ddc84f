r"""What a response says: its text behind the model's reasoning, in plain writing.

Plain writing is one way to write what scripts, keyboards and markup write in many: digits of any script are ASCII,
full-width and Arabic punctuation is Latin, typographic quotes are straight, a superscript is ``^``, spaces of any
width are blanks, and Markdown's and HTML's emphasis is gone. LaTeX, line ends and the order of the text stay.

The spellings of reasoning are those of vLLM's and SGLang's reasoning parsers and of the models' own chat templates.
"""

from __future__ import annotations

import re
import unicodedata
from html import unescape

_NAME = "(?:seed:|mm:|longcat_)?(?i:think(?:ing)?|thoughts?|reasoning|redacted_thinking)"
_REASONING: tuple[tuple[str, str], ...] = (
    # DeepSeek-R1, Qwen, EXAONE, GLM, Seed-OSS, MiniMax, LongCat and all that is prompted for such tags
    (f"<{_NAME}>", f"</{_NAME}>"),
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

_OPENING = re.compile("|".join(opening for opening, _ in _REASONING))
_CLOSING = re.compile("|".join(closing for _, closing in _REASONING))
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe0f☑✅✓✔■□▪∎😀-🙏🌀-🗿🚀-🛿🤀-🧿]")
"""Characters that take no space, and pictures."""

_COMPATIBLE = re.compile(
    "[\u00a0\u1680\u2000-\u200a\u2026\u202f\u205f²³¹⁰⁴-⁻\u2080-\u2089\u3000\ufe50-\ufe6b\uff01-\uff5e\uffe5]"
)
"""Spaces, superscripts, subscripts and full-width characters, for which Unicode knows a plain one."""

_PUNCTUATION = {
    ord(sign): written
    for signs, written in (
        *(("“”„«»「」『』", '"'), ("‘’", "'"), ("−‒", "-"), ("⋅∙", "·"), ("✕✖", "×"), ("。।۔॥။", ". "), ("،、", ", ")),
        *(("؟", "? "), ("؛", "; "), ("٫", "."), ("٬", ","), ("٪", "%"), ("〜", "~"), ("៖", ":"), ("∴", " ")),
        *(("½", r"\frac{1}{2}"), ("¼", r"\frac{1}{4}"), ("¾", r"\frac{3}{4}")),
        *(("⅓", r"\frac{1}{3}"), ("⅔", r"\frac{2}{3}")),
    )
    for sign in signs
}
_DIGIT = re.compile(r"(?![0-9])\d")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_EMPHASIS = re.compile(
    r"(?<![A-Za-z0-9*])\*\*(?=[^\s*])([^*\n]{1,200})\*\*|(?<![\w_])__(?=[^\s_])([^_\n]{1,200})__(?!\w)"
)
_CODE = re.compile(r"`([^`\n]{1,200})`")
_BREAK = re.compile(r"<(?:br|/?(?:p|div|li|ul|ol|tr|td|h[1-6]))(?:\s[^<>\n]{0,80})?\s?/?>", re.IGNORECASE)
_RAISED = re.compile(r"<sup>([^<>\n]{1,20})</sup>", re.IGNORECASE)
_ENTITY = re.compile(r"&#?\w{2,6};")
_UNREAD = re.compile(  # special tokens around an answer, GSM8K's "48/2 = <<48/2=24>>24", HTML's emphasis
    r"(?:</s>|<\|(?:im_end|endoftext|eot_id|end|return)\|>)\s*\Z"
    r"|<\|(?:(?:begin|end)_of_solution|(?:START|END)_(?:RESPONSE|TEXT))\|>|<<[^<>\n]{0,200}>>"
    r"|(?i:</?(?:b|i|u|em|strong|span|mark|code|big|small|font|center|sub)(?:\s[^<>\n]{0,80})?>)"
)


def without_reasoning(response: str) -> str:
    """Return what a response says behind its reasoning; nothing where it ends within it.

    Reasoning whose opening the chat template has written, not the response, ends at its closing as well.
    """
    start = max((closing.end() for closing in _CLOSING.finditer(response)), default=0)
    return "" if _OPENING.search(response, start) else response[start:]


def plain(text: str) -> str:
    r"""Return a text in plain writing: ``**４２** 個。`` becomes ``42 個. ``, ``10⁻³`` becomes ``10^{-3}``."""
    text = _ENTITY.sub(lambda match: unescape(match[0]), text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        text = _SUPERSCRIPTS.sub(lambda raised: f"^{raised[0]}" if len(raised[0]) == 1 else f"^{{{raised[0]}}}", text)
        text = _COMPATIBLE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
        text = _UNSEEN.sub("", text).translate(_PUNCTUATION)
        text = _DIGIT.sub(lambda digit: str(int(digit[0])), text)
    if "<" in text:
        text = _RAISED.sub(r"^{\1}", _BREAK.sub("\n", _UNREAD.sub("", text)))
    text = _CODE.sub(r"\1", text)
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda match: match[1] or match[2], text)
    return text
