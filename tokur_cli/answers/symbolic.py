"""Symbolic comparison by math-verify, in worker processes that are killed when they run out of time or memory.

Expressions may never end or eat all memory, and nothing but the end of its process can interrupt ``9^{9^{9^9}}``. The
first worker starts with the first comparison that needs one (about 0.4 s), so answers that are plain numbers never pay
for it. Each answers one JSON request a line. Its address space is limited, and the kernel's timers kill it (the default
action of SIGPROF and SIGALRM): one when a request has taken its processor time, so that a verdict does not depend on
what else the machine does; the other by the clock. Nobody else has to watch it: it cannot outlive a parent that was
killed by more than that.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tokur_cli.records.errors import TokurError

START_SECONDS = 60
"""How long a worker may take to import math-verify before that is an error."""
PATIENCE = 12.0
"""By the clock a request may take this many times its processor time: a busy machine lets a worker wait."""
_WORTH_A_WORKER = 16  # a worker costs as much as that many easy comparisons

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from tokur_cli.answers.symbolic import main; main()"
)


class OutOfLimits(NamedTuple):
    """The reply to a request that ran out of ``time`` or ``memory``."""

    limit: str


class WorkerPool:
    """Answers requests in worker processes under a time and a memory limit.

    Args:
        count: the most processes; by default as many as there are processors for this process, at most 8.
        seconds: limit of one request in processor time, whatever else the machine does.
        memory_bytes: limit of a worker's address space, of which math-verify itself takes 60 MB.
    """

    def __init__(self, count: int | None = None, *, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self.count = count or min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
        self._limits = [str(limit) for limit in (seconds, seconds * PATIENCE, memory_bytes)]
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._workers):
            self._drop(worker)

    def map(self, requests: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return the replies to ``requests`` in order, ``OutOfLimits`` where a request ran out of time or memory.

        Args:
            requests: ``gold`` and ``answer`` to be compared, or ``text`` for a fingerprint.

        Raises:
            TokurError: a worker does not start.
        """
        waiting = list(requests)
        with ThreadPoolExecutor(min(self.count, 1 + len(waiting) // _WORTH_A_WORKER)) as threads:
            try:
                return list(threads.map(self._reply, waiting))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for worker in list(self._workers):
                    worker.kill()
                raise

    def _reply(self, request: Mapping[str, Any]) -> Any:
        """Return a worker's reply to a request; a worker that died over it is not used again."""
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its death shows when the reply is read
            worker.stdin.write(json.dumps(request).encode() + b"\n")
        line = worker.stdout.readline()
        reply = json.loads(line) if line.endswith(b"\n") else None
        if not line.endswith(b"\n") or reply == "memory":
            ended_by = -self._drop(worker)
            return OutOfLimits("time" if ended_by in (signal.SIGPROF, signal.SIGALRM) else "memory")
        self._idle.put(worker)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = [*self._limits, json.dumps([os.path.abspath(path) for path in sys.path])]
        worker = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._workers.add(worker)
        assert worker.stdout is not None
        if worker.stdout.readline() != b'"ready"\n':
            self._drop(worker)
            raise TokurError("symbolic comparison does not start: is math-verify installed and importable?")
        return worker

    def _drop(self, worker: subprocess.Popen[bytes]) -> int:
        """End a worker and return its exit status, that of its own end where it has ended already."""
        self._workers.discard(worker)
        with worker:
            worker.kill()
        return worker.returncode


def main() -> None:
    """Serve requests until standard input ends.

    ``argv`` holds the seconds of processor time and of the clock for each, and bytes of address space in all.
    """
    seconds, patience, memory = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    for limit in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(limit, signal.SIG_DFL)
    signal.alarm(START_SECONDS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    import resource

    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)  # what a library prints goes nowhere
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # macOS does not enforce RLIMIT_AS: there the time limit alone bounds a comparison
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    import math_verify

    logging.disable(logging.CRITICAL)  # math-verify warns that its own timeout, which cannot be used here, is off
    replies.write(b'"ready"\n')
    for line in requests:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, patience)
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
        replies.write(json.dumps(reply).encode() + b"\n")


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
    return not all(map(_is_zero, (first - second).evalf(50).as_real_imag()))


def _is_zero(part: Any) -> bool:
    """Return whether a real number is zero, or as far as sympy can tell: its digits are then of precision 1."""
    return part == 0 or getattr(part, "_prec", 0) == 1


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
    """Return ``@`` and the value of an expression, or the prints of a list's elements, sorted.

    Only a fingerprint that begins with ``@`` decides by itself; others say which answers are worth comparing.
    """
    import sympy

    if isinstance(expression, sympy.Eq) and isinstance(expression.lhs, sympy.Symbol):
        return _print(expression.rhs)  # a name on one side alone is not compared
    if isinstance(expression, sympy.Expr):
        return f"@{_digits(expression)}"
    with contextlib.suppress(ValueError):
        return f"list {sorted(map(_digits, _values(expression)))}"
    return "relation"


def _digits(expression: Any) -> str:
    """Return the exact value of a rational number, else free symbols and 25 digits of the value at a fixed point."""
    import sympy

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
