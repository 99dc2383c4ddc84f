"""What math-verify and sympy say of answers, in the worker processes of ``equivalence``, which alone import this."""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import signal
import sys
from contextlib import suppress
from typing import Any

import math_verify
import sympy
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

PATIENCE = 12.0
"""By the clock a request may take this many times its processor time: a busy machine lets a worker wait."""

_TARGETS = (math_verify.LatexExtractionConfig(boxed_match_priority=0), math_verify.ExprExtractionConfig())
_UNIT = re.compile(r"(?<![A-Za-z\\_])([A-Za-oq-z]?)i([A-Za-z]?)(?![A-Za-z])")
"""The i of 9i, x + iy and bi, alone or beside one other letter; not that of pi and of words."""

_RAISED_UNIT = re.compile(r"(?<![A-Za-z\\_])([A-Za-oq-z]?)i(?=\s*\^)")
_NAMES_I = re.compile(r"\s*i\s*=|[<>]|\\(?:le|ge|ne|in|sum|prod)(?![A-Za-z])")  # i = 5 names it, i < 5 is real


def serve(seconds: float, memory_bytes: int) -> None:
    """Answer requests until standard input ends; see ``Equivalence`` for the limits.

    The kernel's timers end the process (the default action of SIGPROF and SIGALRM) where a request takes its processor
    time, or far longer by the clock: nobody else has to watch it, and it cannot outlive a killed parent by more.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints goes nowhere
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS does not enforce RLIMIT_AS: there the time limit alone bounds a comparison
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    replies.write(b'"ready"\n')
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds * PATIENCE)
        name, *texts = json.loads(line)
        reply = verify(*texts) if name == "verify" else fingerprint(*texts)
        if not reply and sys.platform == "linux" and _peak_memory() > 0.9 * memory_bytes:
            raise MemoryError  # math-verify swallows it here and there; its False is then worth nothing
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(json.dumps(reply).encode() + b"\n")


def _peak_memory() -> int:
    """Return the most bytes of address space that this process has had; ``ru_maxrss`` counts what its parent had."""
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmPeak"))


def _parse(latex: str) -> list[Any]:
    """Return what math-verify reads in ``latex``: sympy objects, without its fallback to the bare text."""
    if not _NAMES_I.search(latex):  # latex2sympy has i for a variable, and loses the exponent of I^2
        latex = _UNIT.sub(r"\1 I \2", _RAISED_UNIT.sub(r"\1 {I}", latex))
    text = f"\\boxed{{{latex}}}"
    found: list[Any] = math_verify.parse(text, _TARGETS, fallback_mode="no_fallback", parsing_timeout=None)
    return found


def verify(gold: str, answer: str) -> bool | str:
    """Return whether ``answer`` equals ``gold``; "unparsable" when gold is nothing that math-verify reads."""
    reference = _parse(gold)
    if not reference:
        return "unparsable"
    found = _united(_parse(answer), reference)
    reference = _united(reference, found)
    of_reference, of_answer = (any(isinstance(one, Boolean) for one in each) for each in (reference, found))
    if of_answer and not of_reference:  # an equation may give a value, but no value an equation
        found = [expression for expression in found if _gives_value(expression)]
    roles = [(reference, found)]
    if not (of_reference or of_answer):  # (1, 2) is not {2, 1}, whichever is the reference
        roles.append((found, reference))
    same = all(math_verify.verify(*pair, allow_set_relation_comp=True, timeout_seconds=None) for pair in roles)
    return same and not _differ(reference[0], found[0])


def _united(expressions: list[Any], others: list[Any]) -> list[Any]:
    """Return ``x < 1 or x > 3``, which math-verify reads as a set of relations, as a union where the others are one."""
    if any(isinstance(other, sympy.Union) for other in others):
        with suppress(NotImplementedError, TypeError, ValueError):  # of several variables, periodic, or with 1/0
            return [
                sympy.Or(*one.args).as_set()
                if isinstance(one, sympy.FiniteSet) and one.atoms(Relational) == {*one.args}
                else one
                for one in expressions
            ]
    return expressions


def _differ(first: Any, second: Any) -> bool:
    """Return whether two expressions that math-verify calls equal have different values.

    Its own numeric test drops what is below about 1e-16, so that 52!/51! equals 52!/50! and 2^-70 equals 0.
    """
    try:
        return any(itertools.starmap(_unequal, zip(_values(first), _values(second), strict=True)))
    except MemoryError:
        raise
    except Exception:  # what sympy cannot evaluate, or has no values to compare, is as math-verify has it
        return False


def _values(expression: Any) -> list[Any]:
    """Return the values in an expression, those of a set in their order of size.

    Raises:
        ValueError: it is none that has values, such as an inequality.
    """
    expression = _without_name(expression)
    if isinstance(expression, sympy.Expr):
        return [expression]
    if isinstance(expression, sympy.Interval):
        return [expression.start, expression.end]
    if isinstance(expression, (sympy.Tuple, sympy.MatrixBase)):
        return [value for element in expression for value in _values(element)]
    if isinstance(expression, sympy.FiniteSet):
        values = [value for element in expression.args for value in _values(element)]
        return sorted(values, key=lambda value: tuple(_at_a_point(value).evalf(50).as_real_imag()))
    raise ValueError("no values")


def _without_name(expression: Any) -> Any:
    """Return the 5 of ``x = 5`` and ``f(x) = 5``: a name on one side alone is not compared."""
    is_named = isinstance(expression, sympy.Eq) and (expression.lhs.is_Symbol or expression.lhs.is_Function)
    return expression.rhs if is_named else expression


def _gives_value(expression: Any) -> bool:
    """Return whether an expression may give a value: ``4a + 3b = 142`` may, ``2x = 8`` and ``5x - 7y = 0`` don't."""
    if not isinstance(_without_name(expression), sympy.Eq):
        return True
    return len(expression.lhs.free_symbols) != 1 and not (expression.rhs == 0 and expression.lhs.is_Add)


def _unequal(first: Any, second: Any) -> bool:
    """Return whether two values differ: by any of their digits, or a decimal, which has few, by over a thousandth."""
    if first.has(sympy.Float) or second.has(sympy.Float):
        one, other = _at_a_point(first).evalf(50), _at_a_point(second).evalf(50)
        return bool(abs(one - other) > max(abs(one), abs(other)) / 1000)
    return _digits(first) != _digits(second)


def fingerprint(latex: str) -> str | None:
    """Return a text that equal expressions share; None for what math-verify or sympy cannot read.

    It is ``@`` and the value of an expression, which decides by itself, or the values of a list or interval, sorted;
    these say which answers are worth comparing.
    """
    try:
        expression = _without_name(_parse(latex)[0])
        values = sorted(map(_digits, _values(expression)))
    except ValueError:
        return "relation"
    except Exception:  # sympy raises anything at all on expressions that make no sense, such as 1/0 < x
        return None
    return f"@{values[0]}" if isinstance(expression, sympy.Expr) else f"list {values}"


def _digits(expression: Any) -> str:
    """Return the exact value of a rational number, else free symbols and 40 digits of the value at a fixed point."""
    value = sympy.nsimplify(sympy.sympify(expression).doit(), rational=True)
    if not value.free_symbols and not value.is_Rational:
        value = value.expand()
    if value.is_Rational:
        return str(value)
    parts = _at_a_point(value).evalf(50).as_real_imag()
    if not all(part.is_Float or part.is_Rational for part in parts):
        raise ValueError("not a number")
    symbols = ",".join(sorted(map(str, value.free_symbols)))
    # Of what is zero as far as sympy can tell, it gives digits of precision 1.
    digits = ["0" if part == 0 or getattr(part, "_prec", 0) == 1 else str(sympy.Float(part, 40)) for part in parts]
    return f"{symbols}:{','.join(digits)}"


def _at_a_point(expression: Any) -> Any:
    """Return an expression with a number for each of its symbols."""
    symbols = sorted(expression.free_symbols, key=str)
    return expression.subs({symbol: sympy.sqrt(2 * k + 3) + sympy.Rational(k, 7) for k, symbol in enumerate(symbols)})
