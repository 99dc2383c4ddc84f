"""Commands replayed: `cases/NAME/cmd` gives `expout`, which ends with standard error, and `expcode`.

`TOKUR_RECORD=1 pytest tests/commands/test_cases.py` writes them again, to be reviewed by `git diff`. The files that the
commands read stand in `cases`; `$MODEL` is a tiny model, and a file that a command writes is `$OUT`. `evaluate` knows a
few metrics of each kind alone here, so that a metric more changes no case.
"""

import os
import re
import shlex
from pathlib import Path

import pytest

from tokur_cli import __version__
from tokur_cli.metrics.catalogue import METRICS as ALL_METRICS

CASES = Path(__file__).parent / "cases"
METRICS = {"auroc", "acc", "auroc_at_length", "within", "aurc", "prr", "brier", "log_loss"}
NUMBER = re.compile(r"-?\d+\.\d{7,}(?:e-?\d+)?")


def plain(text: str, places: dict[str, str]) -> str:
    """Take away what differs between machines: paths, the version, and what a number has beyond six digits."""
    for name, value in places.items():
        text = text.replace(value, f"${name}")
    return NUMBER.sub(lambda number: f"{float(number[0]):.6g}", text.replace(f'"{__version__}"', '"VERSION"'))


@pytest.mark.parametrize("case", sorted(path.parent.name for path in CASES.glob("*/cmd")))
def test_replayed_command_gives_what_is_recorded(run_tokur, tiny_folder, tmp_path, monkeypatch, case):
    monkeypatch.chdir(CASES)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ALL_METRICS.keys() - METRICS:
        monkeypatch.delitem(ALL_METRICS, name)
    places = {"MODEL": str(tiny_folder), "OUT": str(tmp_path / "out")}
    line = (CASES / case / "cmd").read_text(encoding="utf-8")
    words = [word.replace("$MODEL", places["MODEL"]).replace("$OUT", places["OUT"]) for word in shlex.split(line)]
    code, out, err = run_tokur(*words[1:])
    if (tmp_path / "out").is_file():
        out += (tmp_path / "out").read_text(encoding="utf-8")
    found = {"expout": plain(out + err, places), "expcode": f"{code}\n"}
    for name, text in found.items():
        if os.environ.get("TOKUR_RECORD"):
            (CASES / case / name).write_text(text, encoding="utf-8")
        assert text == (CASES / case / name).read_text(encoding="utf-8")
