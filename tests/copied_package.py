"""A copy of the package with one edit, as an heir would make it, for a subprocess to run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import tokur_cli


def copied_package(folder: Path, file: str, old: str, new: str) -> dict[str, str]:
    """Copy ``tokur_cli`` into a folder, replace one text in one of its files, and return where it is found.

    Run it as ``[sys.executable, "-m", "tokur_cli", …]`` with the environment that is returned, in a working directory
    that is not a checkout (``-m`` looks there first), such as ``folder``.

    Args:
        folder: what the copy is put into; empty.
        file: the only file that is changed, from the package's root.
        old: what stands there exactly once.
        new: what takes its place.

    Returns:
        The environment for a subprocess that imports the copy.
    """
    copy = folder / "tokur_cli"
    shutil.copytree(Path(tokur_cli.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / file).read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times: {old}"
    (copy / file).write_text(text.replace(old, new))
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
