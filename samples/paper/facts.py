"""From responses to facts to the share of facts that are right: what facts.sh does between runs of tokur generate.

python3 facts.py split RESPONSES PROMPT        a question for each response: the prompt and the response, to be split
python3 facts.py ask SPLIT RESPONSES PROMPT    a question for each fact: the prompt, the question and the fact
python3 facts.py quality RESPONSES VERDICTS    the responses, with "quality": the share of their facts that are right
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

Record = dict[str, Any]

MARKED = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(.*\S)", flags=re.MULTILINE)
VERDICT = re.compile(r"\b(not\s+)?(true|false)\b", flags=re.IGNORECASE)


def facts(text: str) -> list[str]:
    """Return the facts of a list: its marked lines, or all lines where none is marked."""
    return MARKED.findall(text) or [line.strip() for line in text.splitlines() if line.strip()]


def verdict(text: str) -> bool | None:
    """Return whether a judge says true or false; None where it says neither, or both."""
    said = {(word.lower() == "true") is not bool(negated) for negated, word in VERDICT.findall(text)}
    return said.pop() if len(said) == 1 else None


def split(responses: Sequence[Record], prompt: str) -> Iterator[Record]:
    """Yield a question for each response: its facts are asked for."""
    for number, record in enumerate(responses):
        yield {"id": str(number), "question": f"{prompt}\n\n{record['response']}"}


def ask(lists: Sequence[Record], responses: Sequence[Record], prompt: str) -> Iterator[Record]:
    """Yield a question for each fact: is it true?"""
    for number, (listed, record) in enumerate(zip(lists, responses, strict=True)):
        for place, fact in enumerate(facts(listed["response"])):
            yield {"id": f"{number}-{place}", "question": f"{prompt}\n\nQuestion: {asked(record)}\nStatement: {fact}"}


def asked(record: Record) -> str:
    """Return what a response answers."""
    return record["question"] if "question" in record else record["prompt"]


def with_quality(responses: Sequence[Record], verdicts: Sequence[Record]) -> Iterator[Record]:
    """Yield the responses with the share of right ones among their judged facts, and say what is not judged."""
    judged: dict[int, list[bool]] = {}
    unclear = without = 0
    for record in verdicts:
        said = verdict(record["response"])
        unclear += said is None
        if said is not None:
            judged.setdefault(int(record["id"].partition("-")[0]), []).append(said)
    for number, record in enumerate(responses):
        right = judged.get(number)
        without += right is None
        yield record if right is None else {**record, "quality": sum(right) / len(right)}
    if unclear or without:
        print(
            f"facts.sh: {unclear} of {len(verdicts)} verdicts are neither True nor False and do not count; "
            f"{without} of {len(responses)} responses have no fact that is judged",
            file=sys.stderr,
        )


def read(path: str) -> list[Record]:
    """Return the records of a file."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    what, first, second, *rest = sys.argv[1:]
    if what == "split":
        made = split(read(first), second)
    elif what == "ask":
        made = ask(read(first), read(second), *rest)
    else:
        made = with_quality(read(first), read(second))
    for line in made:
        print(json.dumps(line))
