"""Equations in the sample responses, labelled by arithmetic.

python samples/steps/make_equations.py < samples/responses_n16.jsonl > equations.jsonl

An equation is "a op b = c" with +, −, ×, ÷ between two numbers, each with a word or two after it at most, as in
"8 books + 2 more books = 10". Its ``claims`` are the whole equation, its ``results`` the number after the "=". Records
without an equation are left out.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from fractions import Fraction

NUMBER = r"\$?(\d[\d,]*(?:\.\d+)?)%?"
WORDS = r"(?: [a-z]+){0,2}"
OPERATION = r"([-+*/x×÷−]|\\times|\\div)"
NOT_LONGER = r"(?<![\d.,+*/×÷-])(?<![-+*/x×÷−] )", r"(?![\d.,]*\d)"
EQUATION = re.compile(rf"{NOT_LONGER[0]}{NUMBER}{WORDS} ?{OPERATION} ?{NUMBER}{WORDS} ?= ?{NUMBER}{NOT_LONGER[1]}")
OPERATIONS = {
    "+": "+",
    "-": "-",
    "−": "-",
    "*": "*",
    "x": "*",
    "×": "*",
    "\\times": "*",
    "/": "/",
    "÷": "/",
    "\\div": "/",
}


def holds(first: str, operation: str, second: str, result: str) -> bool | None:
    """Return whether an equation is right, to the digits that it gives; None where it divides by 0."""
    a, b, c = (Fraction(number.rstrip(",").replace(",", "")) for number in (first, second, result))
    sign = OPERATIONS[operation]
    if sign == "/" and b == 0:
        return None
    exact = a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
    decimals = len(result.partition(".")[2])
    return abs(exact - c) <= Fraction(1, 2 * 10**decimals) if decimals else exact == c


def main() -> None:
    for line in sys.stdin:
        record = json.loads(line)
        found = list(EQUATION.finditer(record["response"]))
        labels = [holds(*equation.groups()) for equation in found]
        if found:
            for name, group in (("claims", 0), ("results", 4)):
                spans = ((equation.start(group), equation.end(group)) for equation in found)
                record[name] = [
                    {"start": start, "end": end, "correct": label}
                    for (start, end), label in zip(spans, labels, strict=True)
                ]
            print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    main()
