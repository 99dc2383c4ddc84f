"""Tasks of Reasoning Gym, made by its library as they are read."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from tokur_cli.records.errors import TokurError, UsageError

GYM = "gym:"


def gym_rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task, each with an ``id`` that tells how it was made.

    Args:
        name: ``gym:zebra_puzzles?size=100&seed=1``: the task and its configuration, as in ``create_dataset``; the seed
            is 0 by default.

    Raises:
        UsageError: there is no such task, or not with this configuration.
        TokurError: the library is missing.
    """
    task, _, query = name.removeprefix(GYM).partition("?")
    try:
        options = dict(parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True))
    except ValueError:
        raise UsageError(f"{name}: is not of the form gym:TASK?size=100&seed=1") from None
    try:
        from reasoning_gym.factory import DATASETS, create_dataset
    except ImportError:
        raise TokurError(f"{name}: tasks of Reasoning Gym need its library: pip install 'tokur[gym]'") from None
    if task not in DATASETS:
        like = [known for known in sorted(DATASETS) if task in known] or difflib.get_close_matches(task, DATASETS)
        like = like or sorted(DATASETS)
        raise UsageError(f"{name}: Reasoning Gym has no task {task}; there are: {', '.join(like)}")
    config = {"seed": 0, **{key: _value(text) for key, text in options.items()}}
    try:
        rows = create_dataset(task, **config)
        count = len(rows)
    except Exception as error:  # whatever a task makes of values that it does not expect
        raise UsageError(f"{name}: {task} cannot be made so: {error}") from None
    made_by = [f"{key}={value}" for key, value in config.items() if key != "size"]
    for index in range(count):
        yield {"id": "-".join([task, *made_by, str(index)]), **rows[index]}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
