"""What math-verify and sympy say of answers, in the worker processes of ``symbolic``, which alone import this."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import sys
from typing import Any

import math_verify
import sympy

PATIENCE = 12.0
"""By the clock a request may take this many times its processor time: a busy machine lets a worker wait."""

_TARGETS = (math_verify.LatexExtractionConfig(boxed_match_priority=0), math_verify.ExprExtractionConfig())
_IMAGINARY_UNIT = re.compile(r"(?<![A-Za-z\\_])([A-Za-oq-z]?)i([A-Za-z]?)(?![A-Za-z])(\s*\^)?")
"""The i of 9i, x + iy and bi, alone or beside one other letter; not that of pi and of words."""

_NAMES_I = re.compile(r"\s*i\s*=|[<>]|\\(?:le|ge|ne|in|sum|prod)(?![A-Za-z])")
"""What makes a variable of ``i``: i = 5 names it, i < 5 is about a real number."""


def serve(seconds: float, memory_bytes: int) -> None:
    """Answer requests until standard input ends; see ``WorkerPool`` for the limits.

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
    if not _NAMES_I.search(latex):
        latex = _IMAGINARY_UNIT.sub(_as_unit, latex)
    text = f"\\boxed{{{latex}}}"
    found: list[Any] = math_verify.parse(text, _TARGETS, fallback_mode="no_fallback", parsing_timeout=None)
    return found


def _as_unit(found: re.Match[str]) -> str:
    """Return the imaginary unit as latex2sympy reads it: ``i`` is a variable, and the exponent of ``I^2`` is lost."""
    before, behind, power = found.groups("")
    unit = "{I}" if power and not behind else "I"
    return " ".join(filter(None, (before, unit, behind))) + power


def verify(gold: str, answer: str) -> bool | str:
    """Return whether ``answer`` equals ``gold``; "unparsable" when gold is nothing that math-verify reads."""
    reference = _parse(gold)
    if not reference:
        return "unparsable"
    found = _parse(answer)
    relations = [isinstance(expression, sympy.logic.boolalg.Boolean) for expression in (*reference, *found)]
    if any(relations):  # an equation may give a value, but no value an equation
        if not any(relations[: len(reference)]):
            found = [expression for expression in found if _gives_value(expression)]
        roles = [(reference, found)]
    else:  # (1, 2) is not {2, 1}, whichever is the reference
        roles = [(reference, found), (found, reference)]
    same = all(math_verify.verify(*pair, allow_set_relation_comp=True, timeout_seconds=None) for pair in roles)
    return same and not _differ(reference[0], found[0])


def _differ(first: Any, second: Any) -> bool:
    """Return whether two expressions that math-verify calls equal have different values.

    Its own numeric test drops what is below about 1e-16, so that 52!/51! equals 52!/50! and 2^-70 equals 0.
    """
    try:
        pairs = list(zip(_values(first), _values(second), strict=True))
        return any(_unequal(sympy.sympify(one), sympy.sympify(other)) for one, other in pairs)
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
        return [_at_a_point(expression)]
    if isinstance(expression, sympy.Interval):
        return [expression.start, expression.end]
    if isinstance(expression, sympy.Tuple):
        return [value for element in expression for value in _values(element)]
    if isinstance(expression, sympy.MatrixBase):
        return list(expression)
    if isinstance(expression, sympy.FiniteSet):
        values = [value for element in expression.args for value in _values(element)]
        return sorted(values, key=lambda value: tuple(value.evalf(50).as_real_imag()))
    raise ValueError("no values")


def _without_name(expression: Any) -> Any:
    """Return the 5 of ``x = 5`` and ``f(x) = 5``: a name on one side alone is not compared."""
    if isinstance(expression, sympy.Eq) and (expression.lhs.is_Symbol or expression.lhs.is_Function):
        return expression.rhs
    return expression


def _at_a_point(expression: Any) -> Any:
    """Return an expression with a number for each of its symbols."""
    symbols = sorted(expression.free_symbols, key=str)
    return expression.subs({symbol: sympy.sqrt(2 * k + 3) + sympy.Rational(k, 7) for k, symbol in enumerate(symbols)})


def _unequal(first: Any, second: Any) -> bool:
    """Return whether two numbers differ at 50 digits; a decimal, whose digits are fewer, by more than a thousandth."""
    if first == second:  # infinity less infinity is no number
        return False
    if first.has(sympy.Float) or second.has(sympy.Float):
        one, other = first.evalf(50), second.evalf(50)
        return bool(abs(one - other) > max(abs(one), abs(other)) / 1000)
    return not all(map(_is_zero, (first - second).evalf(50).as_real_imag()))


def _is_zero(real: Any) -> bool:
    """Return whether a real number is zero, or as far as sympy can tell: its digits are then of precision 1."""
    return real == 0 or getattr(real, "_prec", 0) == 1


def _gives_value(expression: Any) -> bool:
    """Return whether an expression may give a value: ``4a + 3b = 142`` may, ``2x = 8`` doesn't."""
    if not isinstance(expression, sympy.Eq):
        return True
    left = expression.lhs
    unsolved = len(left.free_symbols) == 1 and not (left.is_Symbol or left.is_Function)  # 2x = 8
    return not (unsolved or (expression.rhs == 0 and expression.lhs.is_Add))


def fingerprint(latex: str) -> str | None:
    """Return a text that equal expressions share; None for what math-verify or sympy cannot read.

    It is ``@`` and the value of an expression, which decides by itself, or the values of a list or interval, sorted;
    these say which answers are worth comparing.
    """
    found = _parse(latex)
    if not found:
        return None
    expression = _without_name(found[0])
    try:
        if isinstance(expression, sympy.Expr):
            return f"@{_digits(expression)}"
        with contextlib.suppress(ValueError):
            return f"list {sorted(map(_digits, _values(expression)))}"
        return "relation"
    except MemoryError:
        raise
    except Exception:  # sympy raises anything at all on expressions that make no sense, such as 1/0 < x
        return None


def _digits(expression: Any) -> str:
    """Return the exact value of a rational number, else free symbols and 25 digits of the value at a fixed point."""
    value = sympy.nsimplify(expression.doit(), rational=True)
    if not value.free_symbols and not value.is_Rational:
        value = value.expand()
    if value.is_Rational:
        return str(value)
    parts = _at_a_point(value).evalf(50).as_real_imag()
    if not all(part.is_Float or part.is_Rational for part in parts):
        raise ValueError("not a number")
    symbols = ",".join(sorted(map(str, value.free_symbols)))
    return f"{symbols}:{','.join('0' if _is_zero(part) else str(sympy.Float(part, 25)) for part in parts)}"
