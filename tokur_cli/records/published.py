"""Inputs that are no lines of JSON: data sets, tasks of Reasoning Gym, CSV, TSV, Parquet and Arrow files."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.record import LABELS
from tokur_cli.records.streams import MAX_LINE, open_input

_HUB, _GYM = "hf:", "gym:"
_CSV = tuple(form + packed for form in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
_TABLES = (".parquet", ".arrow")
_NAME = re.compile(r"(?P<path>[^:\[\]]+)(?::(?P<split>[^:\[\]]+))?(?:\[(?P<start>\d*):(?P<end>\d*)\])?")


def published_rows(path: str, max_line: int = MAX_LINE) -> Iterator[tuple[int, Any]] | None:
    """Return the rows of ``hf:…``, ``gym:…``, a saved data set, a ``.parquet``, ``.arrow``, ``.csv`` or ``.tsv`` file.

    Each has its number, from 1; in a CSV or TSV file it is the line on which the row begins. There, ``max_line`` is the
    longest cell in bytes, and an error stands in the place of a bad row. None is returned for any other input.

    Raises:
        TokurError: while iterating: the input as a whole cannot be read, or needs a library that is not there.
        UsageError: while iterating: there is no such split, task or configuration, or several and none is named.
    """
    if path.lower().endswith(_CSV):
        return _csv_rows(path, max_line)
    if path.startswith(_GYM):
        return enumerate(_gym_rows(path), start=1)
    is_data_set = path.startswith(_HUB) or path.lower().endswith(_TABLES) or _is_saved(path)
    return enumerate(_data_set_rows(path), start=1) if is_data_set else None


# --- tables ---


def _csv_rows(path: str, max_cell: int) -> Iterator[tuple[int, dict[str, Any] | RecordError]]:
    """Yield (line on which it begins, row by the names in the first row) of a CSV or TSV file in UTF-8, packed or not.

    Cells are text, so that an id ``007`` stays one; an empty cell is null, and the labels ``correct`` and ``quality``
    are what they spell. A column without a name is the index that pandas wrote.
    """
    form = "TSV" if ".tsv" in path[-8:].lower() else "CSV"
    csv.field_size_limit(max_cell)
    with open_input(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", "") as text:
        head = str(stream.peek(1).splitlines()[:1])
        between = ";" if ";" in head and "," not in head else ","  # of Excel in Europe
        reader = csv.reader(text, delimiter="\t" if form == "TSV" else between, strict=True)
        try:
            names = [name or "index" for name in next(reader, [])]
            if len(set(names)) < len(names):
                raise TokurError(f"{path}:1: the first row names the columns, each by another name; it is {names}")
            line = reader.line_num + 1
            for cells in reader:
                if len(cells) == len(names):
                    row: dict[str, Any] = {name: cell or None for name, cell in zip(names, cells, strict=True)}
                    for name in LABELS:
                        with suppress(ValueError, AttributeError, KeyError):
                            row[name] = json.loads(row[name].lower())
                    yield line, row
                elif cells:
                    yield line, RecordError(f"has {len(cells)} cells, but the first row has {len(names)}", path, line)
                line = reader.line_num + 1
        except csv.Error as error:
            raise TokurError(f"{path}:{reader.line_num}: is not {form}: {error}") from None


# --- data sets and tasks ---


def _is_saved(path: str) -> bool:
    """Return whether a folder is a data set, or several splits of one, as ``save_to_disk`` writes it."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("dataset_dict.json", "state.json"))


def _data_set_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, of a saved folder, or of ``hf:openai/gsm8k/main:test[100:200]``, streamed."""
    path, config, split, start, end = _parse(name) if name.startswith(_HUB) else (name, None, None, 0, sys.maxsize)
    try:
        import datasets
    except ImportError:
        raise TokurError(f"{name}: needs the library datasets: pip install 'tokur[data]'") from None
    import huggingface_hub

    datasets.config.TORCH_AVAILABLE = False  # else rows are not read before torch is imported
    datasets.disable_progress_bars()
    for library in (datasets, huggingface_hub):
        library.logging.set_verbosity_error()
    try:
        if path.lower().endswith(_TABLES):
            files = {"all": glob.escape(os.path.abspath(path))}
            splits = datasets.load_dataset(path.lower().rpartition(".")[2], data_files=files, streaming=True)
        elif _is_saved(path):
            saved = datasets.load_from_disk(path)
            held = saved if isinstance(saved, Mapping) else {str(saved.split or "all"): saved}
            splits = {split: rows.with_format(None).to_iterable_dataset() for split, rows in held.items()}
        else:
            splits = datasets.load_dataset(path, config, streaming=True)
        chosen = next(iter(splits)) if split is None and len(splits) == 1 else split
        if chosen not in splits:
            raise UsageError(f"{name}: name a split, such as hf:DATA:{next(iter(splits), 'train')}{there_are(splits)}")
        rows = splits[chosen].skip(start).take(max(0, end - start))
        for batch in rows.with_format("arrow").iter(batch_size=256):
            yield from batch.to_pylist()
    except TokurError:
        raise
    except Exception as error:  # of the library, of what it reads files with, and of the network
        raise TokurError(f"{name}: cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from None


def _parse(name: str) -> tuple[str, str | None, str | None, int, int]:
    """Return what ``hf:PATH[/CONFIG][:SPLIT][[START:END]]`` names: path, configuration, split, first row, last row."""
    found = _NAME.fullmatch(name.removeprefix(_HUB))
    if found is None:
        raise UsageError(f"{name}: is not of the form hf:NAME[/CONFIG][:SPLIT], such as hf:openai/gsm8k/main:test")
    path, config = os.path.expanduser(found["path"]), None
    if path.count("/") > 1 and not path.startswith(("/", ".")) and not os.path.exists(path):
        owner, data_set, config = path.split("/", 2)
        path = f"{owner}/{data_set}"
    return path, config, found["split"], int(found["start"] or 0), int(found["end"] or sys.maxsize)


def _gym_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``gym:zebra_puzzles?size=100&seed=1``, each with an ``id`` that tells how it was made.

    The configuration is that of Reasoning Gym's ``create_dataset``; the seed is 0 by default.
    """
    task, _, query = name.removeprefix(_GYM).partition("?")
    try:
        from reasoning_gym.factory import DATASETS, create_dataset
    except ImportError:
        raise TokurError(f"{name}: tasks of Reasoning Gym need its library: pip install 'tokur[gym]'") from None
    if task not in DATASETS:
        raise UsageError(f"{name}: Reasoning Gym has no such task{there_are(sorted(DATASETS), task)}")
    config: dict[str, Any] = {"seed": 0}
    try:
        config |= parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True)
        for key, text in config.items():
            with suppress(ValueError, TypeError):  # else it is text
                config[key] = json.loads(text)
        rows = create_dataset(task, **config)
        count = len(rows)
    except Exception as error:  # whatever a task makes of values that it does not expect
        raise UsageError(f"{name}: {task} cannot be made so: {error}") from None
    made_by = [f"{key}={value}" for key, value in config.items() if key != "size"]
    for index in range(count):
        yield {"id": "-".join([task, *made_by, str(index)]), **rows[index]}
