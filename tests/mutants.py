"""Does a test notice? One small change at a time in a random sample of places, and the tests of its room against it.

Run it in a checkout with `pip install cosmic-ray`; the checkout itself is left alone:

    python -m tests.mutants metrics engine/scoring --count 120 --seed 0

A room is a folder of `tokur_cli` that has tests under the same path. `--first 40` passes over the first 40 changes of
the sample, which another run has made.

A change is one of cosmic-ray's (an operator, a number, a comparison, a `not`, a loop that never runs, …), one a place.
Changes of annotations are left out: nothing reads them. Each changed copy meets the tests under the same path, those
of its own file first, up to the first failure; what lives is printed as a diff, and a table comes last, also when the
run is stopped early.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

TOO_LONG = 20  # seconds of a processor for a test: what never ends is noticed too
WAITED = 360  # seconds on the clock for all tests: a busy machine is no test that notices
PRELOADED = ("numpy", "sklearn.isotonic", "torch", "transformers", "pytest")
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")


def places(file: Path) -> Iterator[tuple[str, int]]:
    """Yield an operator and an occurrence for each place of a file that can be changed; one of several at random."""
    tree = get_ast(file.read_text(encoding="utf-8"))
    found: dict[object, list[tuple[str, int]]] = {}
    for name in sorted(operator_names()):
        if name.endswith("NoOp") or "VariableInserter" in name or "VariableReplacer" in name:
            continue
        operator, count = get_operator(name)(), 0
        for node in ast_nodes(tree):
            for start, _ in operator.mutation_positions(node):
                found.setdefault((start, name.partition("_")[0]), []).append((name, count))
                count += 1
    yield from (random.choice(ways) for ways in found.values())


def meaning(code: str) -> str | None:
    """Return what a module does, without annotations; None for what is no module."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            node.annotation = ast.Constant(0)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def tests_of(file: Path) -> list[str]:
    """Return the tests of a module of ``tokur_cli``: the file of its name if there is one, then its room."""
    room = Path("tests", *file.relative_to("tokur_cli").parts[:-1])
    while not room.is_dir():
        room = room.parent
    own = room / f"test_{file.stem}.py"
    return [*([str(own)] if own.is_file() else []), *map(str, sorted(room.glob("test_*.py")))]


class Timer:
    """Ends this process by SIGPROF when a test takes too long; a plugin of pytest."""

    def pytest_runtest_setup(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, TOO_LONG)


def is_noticed(tests: list[str]) -> bool:
    """Run tests in a child of this process, which has the large libraries already, in this folder."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        signal.setitimer(signal.ITIMER_PROF, TOO_LONG)  # for what the modules do when they are imported
        options = ["-x", "-q", "-p", "no:cacheprovider", *tests]
        os._exit(importlib.import_module("pytest").main(options, plugins=[Timer()]))
    until = time.monotonic() + WAITED
    ended = 0
    try:
        while time.monotonic() < until:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status != 0
            time.sleep(0.05)
    finally:
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return True


def folder_of_both(name: str) -> str:
    """Return a folder of ``tokur_cli`` that has tests."""
    if not (Path("tokur_cli", name).is_dir() and Path("tests", name).is_dir()):
        raise argparse.ArgumentTypeError(f"{name} is no folder of both tokur_cli and tests")
    return name


def survey(name: str, count: int, first: int, seed: int) -> None:
    """Change a room's code in a sample of places, the same for a seed; print what lives, and a line of the table."""
    random.seed(f"{seed} {name}")
    files = sorted(Path("tokur_cli", name).rglob("*.py"))
    sample = [(file, *place) for file in files for place in places(file)]
    random.shuffle(sample)
    if is_noticed([f"tests/{name}"]):
        sys.exit(f"the tests of {name} fail without any change")
    number, results = 0, Counter()
    try:
        for file, operator, occurrence in sample:
            if results.total() == count:
                break
            code = file.read_text(encoding="utf-8")
            changed = mutate_code(code, get_operator(operator)(), occurrence)
            if changed is None or meaning(changed) in (None, meaning(code)):
                continue
            number += 1
            if number <= first:
                continue
            file.write_text(changed, encoding="utf-8")
            noticed = is_noticed(tests_of(file))
            file.write_text(code, encoding="utf-8")
            results[noticed] += 1
            if not noticed:
                diff = difflib.unified_diff(
                    code.split("\n"), changed.split("\n"), str(file), str(file), n=1, lineterm=""
                )
                print(f"\n{name} {number}, {operator}", *diff, sep="\n", flush=True)
    finally:
        print(f"\n| {name} | {results.total()} | {results[True]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+", type=folder_of_both)
    parser.add_argument("--count", type=int, default=100, help="changes a room")
    parser.add_argument("--first", type=int, default=0, help="changes of the sample to pass over")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    for library in PRELOADED:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(Path.cwd(), copy, ignore=NOT_COPIED)
        os.chdir(copy)
        sys.path[0] = str(copy)
        del sys.modules["tests"]
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        for name in options.rooms:
            survey(name, options.count, options.first, options.seed)


if __name__ == "__main__":
    main()
