"""``python -m tests.storm``."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SETTINGS = {
    **{"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"},
    **{"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "COLUMNS": "100"},
}
"""One thread, so that forking is safe, and no network."""
PARTS = ("inputs", "faults")


def main() -> int:
    """Run the storm; return 1 if anything fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=sys.modules["tests.storm"].__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (600)")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is random (0)")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--kind", help="one kind of case alone")
    parser.add_argument("--again", metavar="CASE", help="repeat one case: the name of its folder")
    parser.add_argument("--keep", type=Path, help="folder for what fell (storm-SEED)")
    options = parser.parse_args()
    for name in ("TOKUR_MODEL", "TOKUR_DEBUG", "NO_COLOR", "FORCE_COLOR", "HF_TOKEN"):
        os.environ.pop(name, None)
    os.environ.update(SETTINGS)
    kept = options.keep or Path(f"storm-{options.seed}")
    with tempfile.TemporaryDirectory(prefix="storm-", ignore_cleanup_errors=True) as folder:
        os.environ["TOKUR_CACHE"] = f"{folder}/cache"
        return _storm(Path(folder).resolve(), kept, options)


def _storm(folder: Path, kept: Path, options: argparse.Namespace) -> int:
    from tests.storm.corpus import Corpus
    from tests.storm.faults import Faults
    from tests.storm.in_turn import InTurn
    from tests.storm.inputs import Inputs
    from tests.storm.report import Report
    from tests.storm.surroundings import Surroundings
    from tests.storm.warm import Warm
    from tests.tiny import tiny_model_folder

    import transformers.utils.logging

    transformers.utils.logging.disable_progress_bar()
    model = tiny_model_folder(folder)
    warm = Warm(model)
    in_turn = InTurn()
    corpus = Corpus(warm, in_turn, folder, model)
    report = Report(kept, options.seed)
    inputs, surroundings = Inputs(corpus), Surroundings(corpus)
    kinds: dict[str, tuple[float, Callable[[random.Random], object]]] = {}
    weights = {"lines": 40, "bytes": 15, "encodings": 5, "archives": 9, "bombs": 0.2}
    kinds |= {name: (weight, getattr(inputs, name)) for name, weight in weights.items()}
    weights = {"options": 12, "templates": 6, "companions": 4, "posteriors": 4, "collisions": 3, "models": 0.8}
    kinds |= {name: (weight, getattr(surroundings, name)) for name, weight in weights.items()}
    faults = Faults(warm, corpus)
    deadline = time.monotonic() + options.seconds
    number = 0
    spent = {"inputs": 0.0, "faults": 0.0}
    again = options.again
    if again:
        again_part, _, again_number = again.rpartition("-")
        number, options.only = int(again_number), again_part
    while time.monotonic() < deadline:
        started = time.monotonic()
        part = options.only or ("inputs" if spent["inputs"] <= 2 * spent["faults"] else "faults")
        rng = random.Random(f"{options.seed}/{number}")
        place = folder / f"{part}-{number}"
        if part == "inputs":
            kind = options.kind or rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
            case = kinds[kind][1](rng)
            case.write(place)
            outcome = case.run(warm if again else in_turn, place, str(model))
            found = case.faults(outcome, place, corpus)
            if found and not again:  # by itself, in case that an earlier run is to blame
                shutil.rmtree(place)
                case.write(place)
                outcome = case.run(warm, place, str(model))
                found = case.faults(outcome, place, corpus)
            report.add(case.kind, case.command, outcome.seconds, outcome.memory_bytes)
            kind, command, shown = case.kind, case.command, case.shown(str(model))
        else:
            place.mkdir()
            kind, command, shown, found = faults.one(rng, place, report, options.kind)
        if found:
            report.fall(kind, command, found, place.name, place, shown)
        if again:
            print(shown, *found, sep="\n")
            shutil.copytree(place, kept / place.name, symlinks=True, dirs_exist_ok=True)
            return int(bool(found))
        shutil.rmtree(place, ignore_errors=True)
        spent[part] += time.monotonic() - started
        number += 1
    in_turn.stop()
    print("\n".join(report.lines()))
    return int(report.fell)


if __name__ == "__main__":
    sys.exit(main())
