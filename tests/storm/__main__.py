"""``python -m tests.storm``."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
    "https_proxy": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "COLUMNS": "100",
}
"""One thread, so that forking is safe, and no network."""
UNSET = ("TOKUR_MODEL", "TOKUR_DEBUG", "NO_COLOR", "FORCE_COLOR", "HF_TOKEN")
INPUTS, FAULTS, ESCAPES = "inputs", "faults", "escapes"
SHARE_OF_FAULTS = 0.04
"""A fault takes ten times as long as an input."""
ESCAPE_TESTS = "tests/answers/code"
WEIGHTS = {
    "lines": 40,
    "bytes": 15,
    "encodings": 5,
    "archives": 9,
    "bombs": 0.2,
    "options": 12,
    "templates": 6,
    "companions": 4,
    "posteriors": 4,
    "collisions": 3,
    "models": 0.8,
}
"""How often a kind of input comes: a method of ``Inputs`` or of ``Surroundings``."""


def main() -> int:
    """Run the storm; return 1 if anything fell."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.storm",
        description="Hostile inputs and faults against every command. What falls is kept in a folder.",
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long (600)")
    parser.add_argument("--count", type=int, help="how many cases, at most")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is random (0)")
    parser.add_argument("--only", choices=(INPUTS, FAULTS, ESCAPES), help="one part alone")
    parser.add_argument("--kind", help="one kind of inputs or faults alone, as the table names it")
    parser.add_argument("--again", metavar="CASE", help="repeat one case: the name of its folder")
    parser.add_argument("--keep", type=Path, help="folder for what fell (storm-SEED)")
    options = parser.parse_args()
    options.keep = options.keep or Path(f"storm-{options.seed}")
    for name in UNSET:
        os.environ.pop(name, None)
    os.environ.update(SETTINGS)
    if options.only == ESCAPES:
        return _escapes()
    with tempfile.TemporaryDirectory(prefix="storm-", ignore_cleanup_errors=True) as folder:
        os.environ["TOKUR_CACHE"] = f"{folder}/cache"
        storm = Storm(Path(folder).resolve(), options)
        if options.again:
            return storm.repeat(options.again)
        fell = storm.rage()
    return int(fell) if options.only or options.count else max(int(fell), _escapes())


class Storm:
    """Cases in turn, each made of the seed and its number alone.

    Args:
        folder: where everything is made.
        options: of the command line.
    """

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        import transformers.utils.logging

        from tests.storm.corpus import Corpus
        from tests.storm.faults import Faults
        from tests.storm.in_turn import InTurn
        from tests.storm.inputs import Inputs
        from tests.storm.report import Report
        from tests.storm.surroundings import Surroundings
        from tests.storm.warm import Warm
        from tests.tiny import tiny_model_folder

        transformers.utils.logging.disable_progress_bar()
        self._folder, self._options = folder, options
        self._model = str(tiny_model_folder(folder))
        self._warm, self._in_turn = Warm(Path(self._model)), InTurn()
        self._corpus = Corpus(self._warm, self._in_turn, folder, Path(self._model))
        self._makers = Inputs(self._corpus), Surroundings(self._corpus)
        self._faults = Faults(self._warm, self._corpus)
        self._report = Report(options.keep, options.seed)

    def rage(self) -> bool:
        """Go through cases until the time is over or all have been; print the table, return whether any fell."""
        deadline = time.monotonic() + self._options.seconds
        number = 0
        while time.monotonic() < deadline and number != self._options.count:
            rng = random.Random(f"{self._options.seed}/{number}")
            part = FAULTS if rng.random() < SHARE_OF_FAULTS else INPUTS
            self._one(self._options.only or part, number, rng)
            number += 1
        self._in_turn.stop()
        print("\n".join(self._report.lines()))
        return self._report.fell

    def repeat(self, name: str) -> int:
        """Run one case by itself and say what it does; keep its folder, whatever comes of it."""
        part, _, number = name.rpartition("-")
        rng = random.Random(f"{self._options.seed}/{number}")
        rng.random()
        shown, found = self._one(part, int(number), rng, alone=True)
        print(shown, *found, sep="\n")
        return int(bool(found))

    def _one(self, part: str, number: int, rng: random.Random, alone: bool = False) -> tuple[str, list[str]]:
        place = self._folder / f"{part}-{number}"
        if part == FAULTS:
            place.mkdir()
            kind, command, shown, found = self._faults.one(rng, place, self._report, self._options.kind)
        else:
            kind, command, shown, found = self._input(rng, place, alone)
        if found:
            self._report.fall(kind, command, found, place, shown)
        shutil.rmtree(place, ignore_errors=True)
        return shown, found

    def _input(self, rng: random.Random, place: Path, alone: bool) -> tuple[str, str, str, list[str]]:
        """Run a case of hostile input; if it falls in turn, again by itself, since an earlier run may be to blame."""
        kind = self._options.kind or rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        (make,) = (getattr(maker, kind) for maker in self._makers if hasattr(maker, kind))
        case = make(rng)
        found: list[str] = []
        for runner in (self._warm,) if alone else (self._in_turn, self._warm):
            shutil.rmtree(place, ignore_errors=True)
            case.write(place)
            outcome = case.run(runner, place, self._model)
            found = case.faults(outcome, place, self._corpus)
            if not found:
                break
        self._report.add(kind, case.command, outcome.seconds, outcome.memory_bytes)
        return kind, case.command, case.shown(self._model), found


def _escapes() -> int:
    """Run the tests of what code in responses may not do; return 1 if one fell."""
    print(f"\nescapes: {ESCAPE_TESTS}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", ESCAPE_TESTS]
    return int(subprocess.run(command, check=False).returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
