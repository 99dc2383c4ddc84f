r"""Plain writing: one way to write what scripts, keyboards and markup write in many.

Digits of any script are ASCII, full-width and Arabic punctuation is Latin, typographic quotes are straight, a
superscript is ``^``, spaces of any width are blanks, and Markdown's and HTML's emphasis is gone. LaTeX, line ends and
the order of the text stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from html import unescape

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe0f]")
_COMPATIBLE = re.compile(
    "[\u00a0\u1680\u2000-\u200a\u2026\u202f\u205f\u2080-\u2089\u3000\ufe50-\ufe6b\uff01-\uff0b\uff0d-\uff5e\uffe5]"
)
"""Spaces, subscripts and full-width characters, for which Unicode knows a plain one; but for the full-width comma."""

_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("“”„«»「」『』", '"'),
        **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("−‒", "-"),
        **dict.fromkeys("⋅∙", "·"),
        **dict.fromkeys("✕✖", "×"),
        **dict.fromkeys("。।۔॥။", ". "),
        **dict.fromkeys("،、", ", "),
        "؟": "? ",
        "؛": "; ",
        "٫": ".",
        "٬": ",",
        "٪": "%",
        "〜": "~",
        "៖": ":",
        "∴": " ",
    }
)
_DIGITS = re.compile(r"[^\W\x00-\x7f]")
_WIDE_COMMA = re.compile(r"，(?!\d{3}(?!\d))|(?<!\d)，")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_EMPHASIS = re.compile(
    r"(?<![A-Za-z0-9*])\*\*(?=[^\s*])([^*\n]{1,200})\*\*|(?<![\w_])__(?=[^\s_])([^_\n]{1,200})__(?!\w)"
)
_CODE = re.compile(r"`([^`\n]{1,200})`")
_TAG = re.compile(
    r"</?(?:b|i|u|em|strong|span|mark|code|big|small|font|center|sub)(?:\s[^<>\n]{0,80})?>", re.IGNORECASE
)
_BREAK = re.compile(r"<(?:br|/?(?:p|div|li|ul|ol|tr|td|h[1-6]))(?:\s[^<>\n]{0,80})?\s?/?>", re.IGNORECASE)
_RAISED = re.compile(r"<sup>([^<>\n]{1,20})</sup>", re.IGNORECASE)
_PICTURES = re.compile("[☑✅✓✔■□▪∎😀-🙏🌀-🗿🚀-🛿🤀-🧿]+")
_ENTITY = re.compile(r"&#?\w{2,6};")
_END_TOKEN = re.compile(r"(?:</s>|<\|(?:im_end|endoftext|eot_id|end|return)\|>)\s*\Z")
_CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")  # GSM8K's "48/2 = <<48/2=24>>24"


def plain(text: str) -> str:
    r"""Return a text in plain writing; one that is already so comes back as it is.

    Args:
        text: any text: ``**４２** 個。`` becomes ``42 個. ``, ``10⁻³`` becomes ``10^{-3}``.
    """
    if "<" in text:
        text = _END_TOKEN.sub("", text)
    text = _ENTITY.sub(lambda match: unescape(match[0]), text)
    if not text.isascii():
        text = _COMPATIBLE.sub(
            lambda match: unicodedata.normalize("NFKC", match[0]), unicodedata.normalize("NFC", text)
        )
        text = _INVISIBLE.sub("", text).translate(_PUNCTUATION)
        text = _DIGITS.sub(_ascii_digit, text)
        text = _WIDE_COMMA.sub(", ", text).replace("，", ",")
        text = _SUPERSCRIPTS.sub(_power, text)
        text = _PICTURES.sub("", text)
    if "<" in text:
        text = _CALCULATOR.sub("", text)
        text = _RAISED.sub(r"^{\1}", _BREAK.sub("\n", _TAG.sub("", text)))
    if "`" in text:
        text = _CODE.sub(r"\1", text)
    if "**" in text or "__" in text:
        text = _EMPHASIS.sub(lambda match: match[1] or match[2], text)
    return text


def _ascii_digit(match: re.Match[str]) -> str:
    value = unicodedata.decimal(match[0], None)
    return match[0] if value is None else str(value)


def _power(match: re.Match[str]) -> str:
    exponent = match[0].translate(_SUPERSCRIPT)
    return f"^{exponent}" if len(exponent) == 1 else f"^{{{exponent}}}"
