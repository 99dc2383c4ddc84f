r"""LaTeX: what ``\boxed`` puts a frame around, and the names of what has several."""

from __future__ import annotations

import re

YES = (
    "yes true yeah yep yup ja jawohl richtig wahr oui vrai sí si cierto verdadero verdadera sim verdadeiro "
    "verdadeira sì vero vera да верно правда так tak prawda jo waar evet doğru はい ええ 正しい 네 예 맞습니다 참 "
    "是 是的 对 對 对的 對的 正确 正確 نعم صحيح हाँ हां जी सही ใช่ ถูกต้อง có vâng đúng ya benar כן נכון ναι igen "
    "ano"
).split()
NO = (
    "no false nope nein falsch non faux não falso falsa нет неверно неправда ні nie fałsz nee onwaar nej hayır "
    "yanlış いいえ いえ 아니요 아니오 아닙니다 거짓 不 不是 不对 不對 否 错 錯 错误 錯誤 لا خطأ नहीं गलत ไม่ "
    "ไม่ใช่ ผิด không sai tidak bukan salah לא όχι nem ne"
).split()
"""The words, in small letters, by which a text says yes or true, no or false."""

_FILLED = re.compile(r"[A-Za-z0-9]|[^\x00-\x7f]")  # what a box has that is no mere placeholder, such as "?"
_BRACE = re.compile(r"\\{1,2}(?:boxed|fbox)\s{0,4}\{|\\.|[{}]", re.DOTALL)
_NOTHING = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\emptyset|\\varnothing|\\\{\\?\}|∅)"
    r"|(?i:(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set)"
)
_REALS = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\math(?:bb|bf)\s*(?:\{R\}|R)|ℝ|\(-\\infty, ?\+?\\infty\))|-\\infty<[a-z]<\+?\\infty"
    r"|(?i:(?:the set of )?(?:all|any) (?:the )?reals?(?: numbers?| values?)?(?: of)?(?: [a-z])?|(?:the )?real numbers)"
)
_BARE_BOX = re.compile(r"\\boxed\s{1,4}([^\s{}$\\]{1,50})")
_SPACING = re.compile(r"\\q?quad")
_NEXT_PART = re.compile(r"(?i)[.;,\n]\W{0,4}(?:part\s{1,4})?\([b-h]\)[^.;\n]{0,40}\Z")
SO = re.compile(r"(?i)\b(?:so|thus|therefore|hence|consequently)(?![^\W_])|所以|因此")
_LIST_WORD = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
TEXT_GROUP = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox|operatorname)\s*\{[^{}]*\}|\\begin\{\w+\}|\\end\{\w+\}")


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank."""
    return text.strip().partition("\n")[0].strip()


def boxes(text: str) -> tuple[str, int]:
    """Return what the last balanced box, or list of boxes, holds, and where it ends; nothing where there is none."""
    opened: list[tuple[int, int]] = []  # of each open brace: where its box begins, or -1 for others; and its inside
    spans: list[tuple[int, int, int]] = []  # (start, first character inside, closing brace)
    for token in _BRACE.finditer(text):
        if token[0] == "}" and opened:
            start, inside = opened.pop()
            has_inner = bool(spans) and spans[-1][0] > start  # which is kept in its place
            if start >= 0 and not has_inner and _FILLED.search(text, inside, token.start()):
                spans.append((start, inside, token.start()))
        elif token[0] == "{" or len(token[0]) > 2:
            opened.append((token.start() if token[0] != "{" else -1, token.end()))
    if spans:
        return _join_list(text, spans), spans[-1][2] + 1
    bare = _BARE_BOX.search(text, max(0, text.rfind("\\boxed")))
    return (bare[1], bare.end()) if bare else ("", 0)


def _join_list(text: str, spans: list[tuple[int, int, int]]) -> str:
    """Return the last box, joined with those right before it that belong to the same list."""
    first = len(spans) - 1
    while first > 0 and _belongs_together(text[spans[first - 1][2] + 1 : spans[first][0]]):
        first -= 1
    parts = [text[inside:end].strip() for _, inside, end in spans[first:]]
    return parts[0] if len(set(parts)) == 1 else ", ".join(parts)


def _belongs_together(gap: str) -> bool:
    """Return whether the text between two boxes makes them a list: none, a comma, or a few words with "and" or "or"."""
    if len(gap) > 100 or "\n\n" in gap:
        return False
    if _NEXT_PART.search(gap) or not re.search(r"[\w=.]", _SPACING.sub("", gap)):
        return True
    has_list_word = _LIST_WORD.search(gap) and not SO.search(gap)
    return bool(has_list_word) and len(gap.split()) <= 10 and not re.search(r"[.!?:](?:\s|$)", gap)


def common_name(text: str) -> str | None:
    r"""Return one name for an answer in normal form: ``\emptyset`` is "no solution", ``sí`` is "yes"; else None."""
    if _NOTHING.fullmatch(text):
        return "no solution"
    if _REALS.fullmatch(text):
        return "all real numbers"
    word = text.casefold().rstrip("!")
    return "yes" if word in YES else "no" if word in NO else None
