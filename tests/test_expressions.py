"""Every regular expression of ours takes time in proportion to the text, whatever the text."""

import ast
import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pytest

import tokur_cli
from tokur_cli.answers.reading.expressions import Lazy

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser

MAY_BE_SLOW: frozenset[str] = frozenset()
"""Names of expressions, as ``module:NAME``, that are known to take longer."""

IN_PARTS = frozenset(
    f"tokur_cli.answers.reading.{name}"
    for name in (  # noqa: SIM905
        "amounts assertions calculations canonical choices closings foreign languages letters moments notation numbers "
        "spelled statements units vocabulary yes_or_no"
    ).split()
)
"""Modules that read at most 4,000 characters of a text, which ``answers.test_extraction`` tries as a whole."""

WHOLE_TEXTS = frozenset(("QUESTION_LINE", "_FINAL", "_MARKERS"))
"""What of the lexicon is looked for in whole texts."""

SHORT = 4_000
SUSPICIOUS_SECONDS = 0.002
"""A text of so many characters takes a tenth of it as a rule, and ten times as much where it takes the square."""
ENOUGH_SECONDS = 0.03
"""What takes less is too short to be compared."""
LONGEST = 64_000
GROWTH = 2.8
"""How much longer a text that is twice as long may take: 2 is in proportion, 4 is the square."""

RUNS = (
    " ", "\n", "\t", "a", "A", "b ", "0", "1,", "1.", "1 000 ", "-", "=", "a=", "(", "()", "[", "{", "}", "{}", "\\",
    "\\a", "$", "^", "_", "*", "#", "`", "```\n", "'", '"', ",", ". ", "!", "/", "<", "%", "é", "数", "。", "\u0301",
    "\\boxed{", "\\boxed ", "\\text{", "\\frac{", "<answer>", "</answer>", "answer is ", "is ", "and ", "not ", "or a",
    "Step 1", "## ", "1. ", "twenty-", "x^2+", "2*3=", "If ",
)  # fmt: skip
SHORT_RUNS = (" ", "\n", "a", "a ", "1", "1,", ", ", "-", "{", "\\", "`", "(")
ENDS = ("", "!")


def expressions() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the name and the pattern of every compiled regular expression that a module or a class holds."""
    for module in pkgutil.walk_packages(tokur_cli.__path__, "tokur_cli."):
        if not module.name.endswith(("__main__", ".harness")):
            for name, value in vars(importlib.import_module(module.name)).items():
                yield from found_in(f"{module.name}:{name}", value, 4)


def is_read_in_parts(name: str) -> bool:
    module, _, name = name.partition(":")
    return module in IN_PARTS or (
        module == "tokur_cli.answers.reading.lexicon" and name.partition("[")[0] not in WHOLE_TEXTS
    )


def written_in_place() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Yield those that stand where they are used, and how: ``re.search("…", text)``."""
    for path in sorted(Path(tokur_cli.__path__[0]).rglob("*.py")):
        if ".".join(("tokur_cli", *path.relative_to(tokur_cli.__path__[0]).with_suffix("").parts)) in IN_PARTS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            is_of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
            if is_of_re and node.func.attr not in ("escape", "compile") and isinstance(node.args[0], ast.Constant):
                flags = [ast.unparse(part) for part in (*node.args[2:], *(word.value for word in node.keywords))]
                given = [getattr(re, name) for flag in flags for name in re.findall(r"\bre\.([A-Z]+)", flag)]
                pattern = re.compile(node.args[0].value, reduce(or_, given, 0))
                yield f"{path.name}:{node.lineno}", pattern, node.func.attr


def found_in(path: str, value: Any, depth: int) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, (re.Pattern, Lazy)):
        yield path, re.compile(value.pattern, value.flags)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for place, item in enumerate(value):
            yield from found_in(f"{path}[{place}]", item, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from found_in(f"{path}[{key!r}]", (key, item), depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("tokur_cli"):
        for name, item in vars(value).items():
            yield from found_in(f"{path}.{name}", item, depth - 1)


SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in Path(tokur_cli.__path__[0]).rglob("*.py"))
FOUND = {id(pattern): (name, pattern) for name, pattern in expressions() if not is_read_in_parts(name)}
IN_PLACE = list(written_in_place())


def literals(pattern: re.Pattern[Any]) -> list[str]:
    """Return the words and signs that an expression asks for."""
    found: dict[str, None] = {}

    def walk(node: Any) -> None:
        word = ""
        for item in node if isinstance(node, (parser.SubPattern, list, tuple)) else ():
            is_literal = isinstance(item, tuple) and len(item) == 2 and str(item[0]) == "LITERAL"
            if is_literal:
                word += chr(item[1])
            if word and not is_literal:
                found[word] = None
                word = ""
            walk(item)
        if word:
            found[word] = None

    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    walk(parser.parse(text, pattern.flags & ~re.UNICODE))
    return list(found)[:12]


def texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (start, what is repeated, end) of texts that may be hard: runs of what the expression is about, and not."""
    words = literals(pattern)
    for end in ENDS:
        for run in (*RUNS, *words):
            yield "", run, end
        for word in words:
            for run in SHORT_RUNS:
                yield word, run, end
                yield "", word + run, end
                yield "", run + word, end
        for start in ("a.", "1", '"', "$", "(", "\n", "answer is "):
            for run in SHORT_RUNS:
                yield start, run, end


def uses_of(name: str) -> list[Any]:
    """Return in which ways an expression is used, by the text of our modules: all, where it does not tell."""
    word = re.escape(name.partition(":")[2].partition("[")[0])
    calls = set(re.findall(rf"\b{word}\.(\w+)\(", SOURCE))
    if not calls:
        return [find_all, match_whole]
    return list(dict.fromkeys(use_by(call) for call in sorted(calls)))


def use_by(call: str) -> Any:
    return {"match": match_start, "fullmatch": match_whole}.get(call, find_all)


def find_all(pattern: re.Pattern[Any], text: Any) -> None:
    for _ in pattern.finditer(text):
        pass


def match_start(pattern: re.Pattern[Any], text: Any) -> None:
    pattern.match(text)


def match_whole(pattern: re.Pattern[Any], text: Any) -> None:
    pattern.fullmatch(text)


def seconds(use: Any, pattern: re.Pattern[Any], text: tuple[str, str, str], length: int, tries: int) -> float:
    start, run, end = text
    made = start + run * (length // len(run)) + end
    given = made if isinstance(pattern.pattern, str) else made.encode()
    taken = []
    for _ in range(tries):
        began = time.process_time()
        use(pattern, given)
        taken.append(time.process_time() - began)
    return min(taken)


def grows_too_fast(use: Any, pattern: re.Pattern[Any], text: tuple[str, str, str]) -> bool:
    """Return whether the time more than doubles, and not once only, when the text does."""
    taken = seconds(use, pattern, text, SHORT, 1)
    if taken < SUSPICIOUS_SECONDS or seconds(use, pattern, text, 2 * SHORT, 2) < 2.5 * min(
        taken, seconds(use, pattern, text, SHORT, 2)
    ):
        return False
    length = SHORT
    while length < LONGEST and seconds(use, pattern, text, length, 1) < ENOUGH_SECONDS:
        length *= 2
    return all(
        seconds(use, pattern, text, 2 * length, 2) > GROWTH * seconds(use, pattern, text, length, 3) for _ in range(2)
    )


def slow_texts(pattern: re.Pattern[Any], uses: list[Any]) -> list[tuple[str, tuple[str, str, str]]]:
    """Return the first text whose time grows faster than it does, with how it is read."""
    for use in uses:
        for text in texts(pattern):
            if grows_too_fast(use, pattern, text):
                return [(use.__name__, text)]
    return []


@pytest.mark.parametrize(("name", "pattern"), FOUND.values(), ids=[name for name, _ in FOUND.values()])
def test_time_grows_with_the_text(name, pattern):
    if name in MAY_BE_SLOW:
        pytest.skip("is known to take longer")
    assert slow_texts(pattern, uses_of(name)) == []


@pytest.mark.parametrize(("name", "pattern", "call"), IN_PLACE, ids=[name for name, _, _ in IN_PLACE])
def test_time_grows_with_the_text_where_an_expression_is_used(name, pattern, call):
    if name not in MAY_BE_SLOW:
        assert slow_texts(pattern, [use_by(call)]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "slow",
    [
        r"\n\s*(?=\S)", r"(?:[.!?]+[ \t]+|\n)\s*(?=\S)", r"<answer>\s?(.*?)\s?</answer>", r"\s+$", r"\d+(?:,\d+)*x",
        r"^(`{3,})[^\n]*\n(.*?)(?:^\1|\n\n)", r"[a-z]+ *=", rb"\s*=\s*;",
    ],
)  # fmt: skip
def test_what_takes_the_square_is_found(slow):
    """Expressions as ours were, and others."""
    assert slow_texts(re.compile(slow, re.DOTALL | re.MULTILINE), [find_all])


@pytest.mark.parametrize("quick", [r"\n(?=\S)", r"[.!?] ", r"\d", rb"[ \t\r\n]*", r"(?<!\s)\s+", r"a|b|\\boxed\{"])
def test_what_does_not_is_not(quick):
    assert slow_texts(re.compile(quick), [find_all, match_whole]) == []
