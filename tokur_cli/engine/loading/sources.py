"""Where a model comes from: the embedded default, a folder, a GGUF file or the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokur_cli.engine.loading.default_model import DEFAULT_MODEL, default_model_folder
from tokur_cli.engine.loading.gguf import converted_gguf
from tokur_cli.records.errors import TokurError, UsageError

HUB_TIMEOUT_SECONDS = 10.0
CONFIG = "config.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TOKENIZER_CONFIG = "tokenizer_config.json"
PICKLED_WEIGHTS = (".bin", ".pt", ".pth")
CONVERT_PICKLED = (
    'python -c "from transformers import AutoTokenizer, {kind}; '
    "[kind.from_pretrained('{{name}}').save_pretrained('converted') for kind in ({kind}, AutoTokenizer)]\""
)


@dataclass(frozen=True)
class Purpose:
    """What a model is wanted for.

    Args:
        instead: what else can be named, for errors.
        convert: the command that makes safetensors of the pickled weights of ``{name}``.
        gguf: whether it may be a GGUF file.
        adapter: whether it may be an adapter on another model.
    """

    instead: str
    convert: str
    gguf: bool = False
    adapter: bool = False


LANGUAGE_MODEL = Purpose(
    f"a local folder, a GGUF file or {DEFAULT_MODEL}",
    CONVERT_PICKLED.format(kind="AutoModelForCausalLM"),
    gguf=True,
    adapter=True,
)
ADAPTER = Purpose(
    "a local folder",
    'python -c "from safetensors.torch import save_file; import torch; '
    "save_file(torch.load('adapter_model.bin', weights_only=True), 'adapter_model.safetensors')\" in that folder",
)


@dataclass(frozen=True)
class Source:
    """A model's place, as ``from_pretrained`` takes it.

    Args:
        place: a folder, or a hub id.
        revision: the hub commit, None for a folder.
        local_files_only: whether to look at nothing but this machine's files.
        made: whether tokur made the folder, in its cache.
        is_adapter: whether it is an adapter on another model.
        has_tokenizer: whether a tokenizer is among its files.
    """

    place: str
    revision: str | None = None
    local_files_only: bool = True
    made: bool = False
    is_adapter: bool = False
    has_tokenizer: bool = True

    def file(self, name: str = CONFIG) -> Path:
        """Return one of the model's files, fetched from the hub if need be."""
        if self.revision is None:
            return Path(self.place, name)
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(self.place, name, revision=self.revision, local_files_only=self.local_files_only))

    def label(self, name: str) -> str:
        """Return a model's name for errors about its files; with the folder, where the user did not name that."""
        return f"{name} (kept in {self.place}; delete that folder to have it made again)" if self.made else name

    @property
    def options(self) -> dict[str, str | bool]:
        """Keyword arguments for ``from_pretrained``."""
        only: dict[str, str | bool] = {"local_files_only": self.local_files_only}
        return only if self.revision is None else only | {"revision": self.revision}


def find_source(
    name: str, revision: str | None, progress: Callable[[str], None], purpose: Purpose = LANGUAGE_MODEL
) -> Source:
    """Find the model that a user named; GGUF files and the embedded default are converted on their first use.

    Raises:
        UsageError: a revision for something that isn't on the hub.
        TokurError: there is no such model, or it has no weights that can be read.
    """
    path = Path(name).expanduser()
    local = name == DEFAULT_MODEL or path.exists()
    if local and revision is not None:
        raise UsageError(f"a revision was asked for, but {name} isn't a model on the Hugging Face hub")
    if name == DEFAULT_MODEL:
        return Source(str(default_model_folder(progress)), made=True)
    if path.is_dir():
        entries = sorted(path.iterdir())
        names = {entry.name for entry in entries}
        require_usable(name, names, purpose)
        for entry in entries:
            # The libraries would call it missing; what others saved is often its owner's alone
            if entry.suffix in (".safetensors", ".json", ".jinja") and entry.exists() and not os.access(entry, os.R_OK):
                raise TokurError(f"{entry}: cannot be read: Permission denied; ask its owner for `chmod a+r`")
        return Source(str(path), **_kind_of(names, purpose))
    if path.is_file():
        if not purpose.gguf:
            raise TokurError(f"{name} is a file; use {purpose.instead}")
        return Source(str(converted_gguf(path, progress)), made=True)
    return _find_on_hub(name, revision, progress, purpose)


def _find_on_hub(name: str, revision: str | None, progress: Callable[[str], None], purpose: Purpose) -> Source:
    """Ask the hub for the commit once, so that config, tokenizer and weights are of the same one.

    transformers would retry an unreachable hub for half a minute before it looks at the local cache; one request with a
    time limit decides it here.
    """
    from huggingface_hub import HfApi, is_offline_mode, try_to_load_from_cache
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # httpx's or httpx2's, as it uses
    from huggingface_hub.utils import HFValidationError, validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        what = "no folder and no GGUF file" if purpose.gguf else "no folder"
        raise TokurError(f"there is {what} {name}") from error
    if not is_offline_mode():
        try:
            info = HfApi().model_info(name, revision=revision, timeout=HUB_TIMEOUT_SECONDS)
        except HTTPError as error:
            if (explained := explain_hub_error(error, name)) is not None:
                raise explained from error
            progress(f"the Hugging Face hub can't be reached ({first_line(error)}); looking in its local cache")
        else:
            names = {file.rfilename for file in info.siblings or ()}
            require_usable(name, names, purpose)
            return Source(name, info.sha, local_files_only=False, **_kind_of(names, purpose))
    wanted = (ADAPTER_CONFIG, TOKENIZER_CONFIG, CONFIG)
    found = {file: try_to_load_from_cache(name, file, revision=revision) for file in wanted}
    here = {file: place for file, place in found.items() if isinstance(place, str)}
    kind = _kind_of(here.keys(), purpose)
    cached = here.get(ADAPTER_CONFIG if kind["is_adapter"] else CONFIG)
    if cached is None:
        raise TokurError(
            f"there is no folder {name} here, and the Hugging Face hub can't be reached and its local cache lacks "
            f"{name}; connect, or use {purpose.instead}"
        )
    return Source(name, Path(cached).parent.name, **kind)


def explain_hub_error(error: BaseException | None, name: str) -> TokurError | None:
    """Say in the user's words what the hub refused; None if neither the error nor its causes are of that kind."""
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return TokurError(
            f"{name} is gated: accept its licence at https://huggingface.co/{name}, then set HF_TOKEN to your token "
            "(or run `hf auth login`)"
        )
    if isinstance(error, RevisionNotFoundError):
        return TokurError(f"{name} has no such revision on the Hugging Face hub")
    if isinstance(error, RepositoryNotFoundError):
        return TokurError(
            f"there is no folder {name} here and no model {name} on the Hugging Face hub; a private model needs "
            "HF_TOKEN set"
        )
    if isinstance(error, LocalEntryNotFoundError):
        return TokurError(f"{name} isn't complete in the Hugging Face hub's local cache, and the hub can't be reached")
    return None if error is None else explain_hub_error(error.__cause__ or error.__context__, name)


def _kind_of(names: Collection[str], purpose: Purpose) -> dict[str, Any]:
    """Return what the names of a model's files say of its kind: transformers, too, takes the adapter where one is."""
    is_adapter = purpose.adapter and ADAPTER_CONFIG in names
    return {"is_adapter": is_adapter, "has_tokenizer": not is_adapter or TOKENIZER_CONFIG in names}


def require_usable(name: str, names: Collection[str], purpose: Purpose) -> None:
    """Check by the names of a model's files that it can be loaded."""
    suffixes = {Path(file).suffix for file in names if "/" not in file}
    if _kind_of(names, purpose)["is_adapter"]:
        refuse_pickled(name, suffixes, ADAPTER)
        if ADAPTER_WEIGHTS not in names:
            raise TokurError(f"{name} is an adapter without weights ({ADAPTER_WEIGHTS})")
        return
    if CONFIG not in names or ".safetensors" not in suffixes:
        if ADAPTER_CONFIG in names:
            raise TokurError(f"{name} is an adapter, not a model; merge it into its base model and save that")
        if ".gguf" in suffixes and purpose.gguf:
            raise TokurError(f"{name} holds GGUF files; name one of them by its path (from the hub: download it first)")
    if CONFIG not in names:
        raise TokurError(f"{name} has no config.json, so it isn't a Hugging Face model")
    refuse_pickled(name, suffixes, purpose)
    if ".safetensors" not in suffixes:
        raise TokurError(f"{name} has no weights (*.safetensors)")


def refuse_pickled(name: str, suffixes: set[str], purpose: Purpose) -> None:
    """Refuse a folder of a model, by the endings of its files' names, whose weights aren't there as safetensors too."""
    if ".safetensors" not in suffixes and not suffixes.isdisjoint(PICKLED_WEIGHTS):
        raise TokurError(
            f"{name} has its weights only as pickle files, which can run code and aren't loaded; if you trust "
            f"them, convert them: {purpose.convert.format(name=name)}"
        )


def first_line(error: BaseException) -> str:
    """Return an error's message up to the first line break, its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
