"""The child process that compares answers symbolically with math-verify: one JSON request per line in, one reply out.

It may run into expressions that never end or eat all memory, so it is expendable: its address space is limited, and the
kernel's timers kill it (the default action of SIGPROF and SIGALRM): one when a request has taken its processor time, so
that a verdict does not depend on what else the machine does; the other by the clock, shortly after its parent should
have, so that it cannot outlive a parent that was killed. Python's own signal handlers would not do, because they wait
for the running C call.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
from typing import Any, BinaryIO

GRACE_SECONDS = 1.0
"""How much later than the parent's deadline the kernel kills the worker."""


def main() -> None:
    """Serve requests until standard input ends.

    ``argv`` holds the seconds of processor time and of the clock for each, and bytes of address space in all.
    """
    seconds, patience, memory = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    requests, replies = _private_pipes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS does not enforce RLIMIT_AS: there the time limit alone bounds a comparison
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for limit in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(limit, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    import math_verify

    logging.disable(logging.CRITICAL)  # math-verify warns that its own timeout, which cannot be used here, is off
    _send(replies, "ready")
    for line in requests:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, patience + GRACE_SECONDS)
        request = json.loads(line)
        try:
            reply: Any = _verify(math_verify, **request) if "gold" in request else _fingerprint(math_verify, **request)
        except MemoryError:
            reply = "memory"
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        # math-verify swallows MemoryError here and there; its False is then worth nothing.
        if not reply and sys.platform == "linux" and _peak_memory() > 0.9 * memory:
            reply = "memory"
        _send(replies, reply)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for our protocol alone: what a library prints goes nowhere."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    return requests, replies


def _send(replies: BinaryIO, reply: Any) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()


def _peak_memory() -> int:
    with open("/proc/self/status", "rb") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmPeak"))


def _parse(math_verify: Any, latex: str) -> list[Any]:
    """Return what math-verify reads in ``latex``: sympy objects, without its fallback to the bare text."""
    targets = (math_verify.LatexExtractionConfig(boxed_match_priority=0), math_verify.ExprExtractionConfig())
    text = f"\\boxed{{{latex}}}"
    found: list[Any] = math_verify.parse(text, targets, fallback_mode="no_fallback", parsing_timeout=None)
    try:
        return [_with_imaginary_unit(expression) for expression in found]
    except MemoryError:
        raise
    except Exception:  # what sympy cannot build is not read, as in math-verify's own parser
        return []


def _with_imaginary_unit(expression: Any) -> Any:
    """Return an expression with ``i`` as the imaginary unit; math-verify reads two variables in ``9i`` and ``9 i``."""
    import sympy

    if not isinstance(expression, (sympy.Basic, sympy.MatrixBase)):
        return expression
    unit = {symbol: sympy.I for symbol in expression.free_symbols if str(symbol) == "i"}
    if not unit:
        return expression
    if hasattr(expression, "_unsorted_args"):  # math-verify's sets and chains keep the order as written
        elements = [_with_imaginary_unit(element) for element in expression._unsorted_args]
        if not isinstance(expression, sympy.And):
            return type(expression)(*elements)
        expression._unsorted_args = elements  # a chain made anew would drop the equations that are true
        return expression
    if isinstance(expression, sympy.Eq) and expression.lhs not in unit:
        return sympy.Eq(expression.lhs.xreplace(unit), expression.rhs.xreplace(unit), evaluate=False)
    if isinstance(expression, sympy.logic.boolalg.Boolean):  # i < 5 is about a real number, i = 5 names it
        return expression
    return expression.xreplace(unit)


def _verify(math_verify: Any, gold: str, answer: str) -> bool | str:
    """Return whether ``answer`` equals ``gold``; "unparsable" when gold is nothing that math-verify reads."""
    reference = _parse(math_verify, gold)
    if not reference:
        return "unparsable"
    found = _parse(math_verify, answer)
    if _hold_relation([*reference, *found]):  # an equation may give a value, but no value an equation
        if not _hold_relation(reference):
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
    import sympy

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
    import sympy

    if isinstance(expression, sympy.Eq) and isinstance(expression.lhs, sympy.Symbol):
        return _values(expression.rhs)
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


def _at_a_point(expression: Any) -> Any:
    """Return an expression with a number for each of its symbols."""
    import sympy

    symbols = sorted(expression.free_symbols, key=str)
    return expression.subs({symbol: sympy.sqrt(2 * k + 3) + sympy.Rational(k, 7) for k, symbol in enumerate(symbols)})


def _unequal(first: Any, second: Any) -> bool:
    """Return whether two numbers differ at 50 digits; a decimal, whose digits are fewer, by more than a thousandth."""
    import sympy

    if first.has(sympy.Float) or second.has(sympy.Float):
        one, other = first.evalf(50), second.evalf(50)
        return bool(abs(one - other) > max(abs(one), abs(other)) / 1000)
    return not _is_zero((first - second).evalf(50))


def _is_zero(value: Any) -> bool:
    """Return whether a number is zero, or as far as sympy can tell: its digits are then of precision 1."""
    return all(part == 0 or getattr(part, "_prec", 0) == 1 for part in value.as_real_imag())


def _hold_relation(expressions: list[Any]) -> bool:
    """Return whether an expression is an equation or inequality, or several of them."""
    import sympy

    return any(isinstance(expression, sympy.logic.boolalg.Boolean) for expression in expressions)


def _gives_value(expression: Any) -> bool:
    """Return whether an expression may give a value: ``4a + 3b = 142`` may, ``2x = 8`` doesn't."""
    import sympy

    if not isinstance(expression, sympy.Eq):
        return True
    left = expression.lhs
    unsolved = len(left.free_symbols) == 1 and not (left.is_Symbol or left.is_Function)  # 2x = 8
    return not (unsolved or (expression.rhs == 0 and expression.lhs.is_Add))


def _fingerprint(math_verify: Any, text: str) -> str | None:
    """Return a text that equal expressions share, see ``_print``; None for what math-verify or sympy cannot read."""
    found = _parse(math_verify, text)
    try:
        return _print(found[0]) if found else None
    except MemoryError:
        raise
    except Exception:  # sympy raises anything at all on expressions that make no sense, such as 1/0 < x
        return None


def _print(expression: Any) -> str:
    """Return the exact value, or free symbols and the value at a fixed point; for lists and relations, their parts.

    Only a fingerprint that begins with ``@`` decides by itself; others say which answers are worth comparing.
    """
    import sympy

    if isinstance(expression, sympy.Eq) and isinstance(expression.lhs, sympy.Symbol):
        return _print(expression.rhs)  # a name on one side alone is not compared
    if isinstance(expression, sympy.Expr):
        value = sympy.nsimplify(expression.doit(), rational=True)
        if not value.free_symbols and not value.is_Rational:
            value = value.expand()
        if value.is_Rational:
            return f"@{value}"
        symbols = ",".join(sorted(map(str, value.free_symbols)))
        return f"@{symbols}:{_digits(_at_a_point(value).evalf(50))}"
    if isinstance(expression, sympy.Interval):
        return f"list {sorted([_print(expression.start), _print(expression.end)])}"
    if isinstance(expression, (sympy.Tuple, sympy.Set)):
        return f"list {sorted(map(_print, expression.args))}"
    if isinstance(expression, sympy.MatrixBase):
        return f"matrix {expression.shape} {[_print(entry) for entry in expression]}"
    return "relation"


def _digits(value: Any) -> str:
    real, imaginary = value.as_real_imag()
    if not (real.is_Float or real.is_Rational) or not (imaginary.is_Float or imaginary.is_Rational):
        raise ValueError("not a number")
    return f"{_round(real)},{_round(imaginary)}"


def _round(part: Any) -> str:
    import sympy

    return "0" if _is_zero(part) else str(sympy.Float(part, 25))


if __name__ == "__main__":
    main()
