"""Where a model comes from: one of the embedded ones, a folder, a GGUF file or the Hugging Face hub; and what it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokur_cli.engine.model.cached import EMBEDDED, converted_gguf, embedded_folder
from tokur_cli.engine.model.errors import explained_errors, first_line
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.records.errors import TokurError, UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

HUB_TIMEOUT_SECONDS = 10.0
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TOKENIZER_CONFIG = "tokenizer_config.json"
CAUSAL, MULTIMODAL = "AutoModelForCausalLM", "AutoModelForMultimodalLM"  # of transformers
CAUSAL_CLASS_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


class Source(NamedTuple):
    """A model or an adapter, as ``from_pretrained`` takes it."""

    name: str  # what the user typed, or a config names
    place: str  # a folder, or a hub id
    revision: str | None = None  # the hub commit; None where it is none of the hub's
    files: Collection[str] = ()  # the names of its files

    def file(self, name: str) -> Path:
        """Return one of its files, fetched from the hub if need be; OSError where it has none of that name."""
        from transformers.utils.hub import cached_file

        return Path(str(cached_file(self.place, name, revision=self.revision)))

    def load(self, kind: Any, **options: Any) -> Any:
        """Return what a class of transformers makes of it by ``from_pretrained``, with further options."""
        return kind.from_pretrained(self.place, revision=self.revision, **options)


def find_adapted(request: ModelRequest, progress: Callable[[str], None]) -> tuple[Source, Source | None]:
    """Return where a model is and the adapter that belongs on it, if one does: an adapter's config names its base.

    Raises:
        UsageError: a revision for local files.
        TokurError: there is no such model or adapter, or the two cannot be put together.
    """
    name = request.name
    base = find_source(name, request.revision, progress)
    if request.adapter is not None:
        own = find_source(request.adapter, None, progress)
    elif ADAPTER_CONFIG not in base.files:
        return base, None
    else:
        own = base
        config = json.loads(own.file(ADAPTER_CONFIG).read_bytes())
        named, by_name = config.get("base_model_name_or_path"), f"-m MODEL --adapter {name} puts it on another"
        if not named:
            raise TokurError(f"{name} is an adapter that names no base model: {by_name}")
        try:
            base = find_source(named, None if Path(named).expanduser().exists() else config.get("revision"), progress)
        except TokurError as error:
            raise TokurError(f"{name} is an adapter on {named}: {error}; {by_name}") from error
    if ADAPTER_CONFIG in base.files or ADAPTER_CONFIG not in own.files:
        raise TokurError(f"{base.name} should be a whole model and {own.name} an adapter on it")
    return base, own


def find_source(name: str, revision: str | None, progress: Callable[[str], None]) -> Source:
    """Find the model that a user named; GGUF files and embedded models are converted on their first use.

    Of a model on the hub, the commit is asked for once, so that config, tokenizer and weights are of the same one.

    Raises:
        UsageError: a revision for something that isn't on the hub.
        TokurError: there is no such model.
    """
    path = Path(name).expanduser()
    if name not in EMBEDDED and not path.exists():
        with explained_errors(name):
            return _find_on_hub(name, revision, progress)
    if revision is not None:
        raise UsageError(f"a revision was asked for, but {name} isn't a model on the Hugging Face hub")
    if name in EMBEDDED:
        path = embedded_folder(EMBEDDED[name], progress)
    elif not path.is_dir():
        path = converted_gguf(path, progress)
    return Source(name, str(path), None, {entry.name for entry in path.iterdir()})


def _find_on_hub(name: str, revision: str | None, progress: Callable[[str], None]) -> Source:
    """Find a model on the hub; where that can't be reached, a folder of its local cache.

    transformers would retry an unreachable hub for half a minute before it looks there; here it is one request.
    """
    from huggingface_hub import HfApi, hf_hub_download, is_offline_mode, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # httpx's or httpx2's

    if not is_offline_mode():
        try:
            info = HfApi().model_info(name, revision=revision, timeout=HUB_TIMEOUT_SECONDS)
            files = {file.rfilename for file in info.siblings or ()}
            for file in files & {ADAPTER_CONFIG, "config.json"}:
                hf_hub_download(name, file, revision=revision)  # so that the cache keeps which commit the revision is
            return Source(name, name, info.sha, files)
        except HfHubHTTPError:
            raise
        except HTTPError as error:
            progress(f"the Hugging Face hub can't be reached ({first_line(error)}); looking in its local cache")
    cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
    return Source(name, str(cached), cached.name, {entry.name for entry in cached.iterdir()})


def causal_config(source: Source, trust_remote_code: bool) -> tuple[PreTrainedConfig, tuple[str, ...]]:
    """Return a model's config, and transformers' classes that load the model for texts, the one for texts alone first.

    The one that takes images or sound beside texts is for models that there is no other for, and for checkpoints that
    were saved by it, whose weights may not be named as the other wants them.

    Raises:
        TokurError: the model doesn't predict the next token from the ones before it.
    """
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as OF_TEXTS
    from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES as OF_MORE

    config: PreTrainedConfig = source.load(AutoConfig, trust_remote_code=trust_remote_code)
    saved_by = next(iter(getattr(config, "architectures", None) or []), None)
    has_own_class = CAUSAL in (getattr(config, "auto_map", None) or {})
    kinds = [CAUSAL] if has_own_class or config.model_type in OF_TEXTS else []
    if (of_more := OF_MORE.get(config.model_type)) is not None and (not kinds or of_more == saved_by):
        kinds.append(MULTIMODAL)
    is_causal = has_own_class or saved_by is None or saved_by.endswith(CAUSAL_CLASS_ENDINGS)
    if config.is_encoder_decoder or not kinds or not is_causal:
        what = saved_by or config.model_type
        raise TokurError(f"{source.name} ({what}) isn't a causal language model that this transformers loads")
    return config, tuple(kinds)
