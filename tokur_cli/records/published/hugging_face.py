"""Data sets of the Hugging Face hub, and local folders of the same form, read by the ``datasets`` library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tokur_cli.records.errors import TokurError, UsageError

HUGGING_FACE = "hf:"
_NAME = re.compile(r"(?P<path>[^:\[\]]+)(?::(?P<split>[^:\[\]]+))?(?:\[(?P<start>\d*):(?P<end>\d*)\])?")
_SAVED = (("dataset_dict.json",), ("state.json", "dataset_info.json"))  # what save_to_disk writes beside the rows
_LOCAL = ("/", "./", "../", "~")


class _Source(NamedTuple):
    """What ``hf:PATH[/CONFIG][:SPLIT][[START:END]]`` names; the first row is 0."""

    path: str
    config: str | None
    split: str | None
    start: int
    end: int | None


def hub_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set, streamed.

    Args:
        name: ``hf:openai/gsm8k/main:test``: a data set of the hub or a local folder, the configuration and the split
            where there are several, and maybe some of its rows, ``[:100]`` or ``[100:200]``.

    Raises:
        UsageError: the name has another form, or leaves open which configuration or split is meant.
        TokurError: there is no such data set, it cannot be read, or the library is missing.
    """
    source = _parse(name)
    if os.path.isabs(source.path) and not os.path.isdir(source.path):
        raise TokurError(f"{name}: there is no folder {source.path}")
    return _rows(name, source)


def is_saved_folder(path: str) -> bool:
    """Return whether a folder is a data set, or several splits of one, as ``save_to_disk`` writes it."""
    return any(all(os.path.isfile(os.path.join(path, name)) for name in names) for names in _SAVED)


def saved_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data set that ``save_to_disk`` wrote."""
    return _rows(path, _Source(os.path.abspath(path), None, None, 0, None))


def _rows(name: str, source: _Source) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ImportError:
        raise TokurError(f"{name}: data sets need the library datasets: pip install 'tokur[data]'") from None
    import huggingface_hub

    datasets.config.TORCH_AVAILABLE = False  # else rows are not read before torch is imported
    datasets.disable_progress_bars()
    for library in (datasets, huggingface_hub):
        library.logging.set_verbosity_error()
    try:
        if is_saved_folder(source.path):
            saved = datasets.load_from_disk(source.path)
            held = saved if isinstance(saved, Mapping) else {str(saved.split or "all"): saved}
            splits = {split: rows.with_format(None).to_iterable_dataset() for split, rows in held.items()}
        else:
            splits = datasets.load_dataset(source.path, source.config, streaming=True)
        rows = splits[_chosen(name, source, splits)].skip(source.start)
        yield from rows if source.end is None else rows.take(max(0, source.end - source.start))
    except TokurError:
        raise
    except Exception as error:  # of the library, of what it reads files with, and of the network
        raise TokurError(f"{name}: {_reason(error)}") from None


def local_path(name: str) -> str | None:
    """Return the folder that an ``hf:`` name means, if it is not one of the hub."""
    path = _parse(name).path
    return path if path.startswith("/") or os.path.isdir(path) else None


def _parse(name: str) -> _Source:
    found = _NAME.fullmatch(name.removeprefix(HUGGING_FACE))
    if found is None:
        raise UsageError(f"{name}: is not of the form hf:NAME[/CONFIG][:SPLIT], such as hf:openai/gsm8k/main:test")
    path, config = found["path"].rstrip("/"), None
    if path.startswith(_LOCAL) or os.path.exists(path):
        path = os.path.abspath(os.path.expanduser(path))
        if os.path.isfile(path):
            raise UsageError(f"{name}: is a file, not a folder: leave the {HUGGING_FACE} out")
        if not os.path.exists(path) and os.path.isdir(os.path.dirname(path)) and os.path.dirname(path) != "/":
            path, config = os.path.split(path)
    elif path.count("/") > 1:
        owner, dataset, config = path.split("/", 2)
        path = f"{owner}/{dataset}"
    start, end = found["start"], found["end"]
    return _Source(path, config, found["split"], int(start or 0), int(end) if end else None)


def _chosen(name: str, source: _Source, splits: Mapping[str, Any]) -> str:
    """Return the split that is meant."""
    if source.split is not None and source.split in splits:
        return source.split
    if source.split is None and len(splits) == 1:
        return next(iter(splits))
    what = "has several splits" if source.split is None else f"has no split {source.split}"
    data_set = name.removeprefix(HUGGING_FACE).rpartition(f":{source.split}")[0] or name.removeprefix(HUGGING_FACE)
    raise UsageError(
        f"{name}: {what}; there are: {', '.join(map(str, splits))}. Name one, such as "
        f"{HUGGING_FACE}{data_set}:{next(iter(splits), 'train')}"
    )


def _reason(error: Exception) -> str:
    """Return what the library says, on one line and without its examples of use."""
    lines = str(error).partition("Example of usage:")[0].split()
    return f"cannot be read: {' '.join(lines) or type(error).__name__}"
