"""pip as a quiet child: what it says is for its caller, it leaves nothing behind, and it ends when tokur does."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from tokur_cli.records.errors import TokurError

# Standard input is a pipe from tokur. Its end is the end of tokur, however that came, on every system. The folder that
# commands are started in is not for pip to import from.
_CHILD = """
import os, runpy, sys, threading
def watch():
    os.read(0, 1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
sys.path[:] = filter(None, sys.path)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
_SECONDS_BETWEEN_LOOKS = 0.1


class InstallerError(TokurError):
    """pip failed; the message is its report."""


def download_wheel(requirement: str, folder: Path, megabytes: int) -> Path:
    """Download one wheel, without what it requires; a terminal sees a bar.

    Args:
        requirement: as pip takes it.
        folder: an empty one: pip's temporary files go there too, so that removing it leaves nothing, even after a kill.
        megabytes: the wheel's size.

    Raises:
        InstallerError: pip failed.
    """
    wheels, temporary = folder / "wheels", folder / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-c", _CHILD, "download", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels), requirement]
    with (folder / "report").open("w+b") as report:
        if _run(command, report, temporary, megabytes * 10**6) != 0:
            report.seek(0)
            raise InstallerError(report.read().decode(errors="replace").strip())
    (file,) = wheels.glob("*.whl")
    return file


def _run(command: list[str], report: IO[bytes], temporary: Path, size: int) -> int:
    """Run pip to its end and return its exit code; whatever ends the waiting ends pip."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("tokur"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=report, stderr=report, env={**os.environ, **places}
    ) as pip:
        try:
            with bar:
                task = bar.add_task("", total=size)
                while True:
                    try:
                        return pip.wait(timeout=_SECONDS_BETWEEN_LOOKS)
                    except subprocess.TimeoutExpired:
                        bar.update(task, completed=min(_largest_file(temporary), size))
        finally:
            pip.kill()


def _largest_file(folder: Path) -> int:
    """Return the size in bytes of the largest file under a folder that another process works in."""
    largest = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                largest = max(largest, os.stat(os.path.join(place, file)).st_size)
    return largest
