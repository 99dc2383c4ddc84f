"""Which model a command loads.

Everything up to here runs without torch and transformers, whose import takes seconds: mistakes are reported first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.shared.errors import say
from tokur_cli.commands.shared.imports import lasting_objects
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.loading.models import (
    DEFAULT_MODEL,
    LanguageModel,
    ModelDescription,
    describe_model,
    load_language_model,
)
from tokur_cli.records.errors import TokurError


def load(options: ModelOptions, named_by_records: str | None, progress: Progress) -> LanguageModel:
    """Load the model that was asked for, else the records' own, else TOKUR_MODEL's, else the embedded one.

    Raises:
        TokurError: the model cannot be had.
    """
    with lasting_objects(), _naming_records(options):
        return load_language_model(
            _announced(options, named_by_records, progress),
            dtype=options.dtype,
            device_map=options.device_map,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
            progress=progress.say,
        )


def describe(options: ModelOptions, named_by_records: str | None, progress: Progress) -> ModelDescription:
    """Find the model that ``load`` would load, without loading its weights.

    Raises:
        TokurError: the model cannot be had.
    """
    with lasting_objects(), _naming_records(options):
        return describe_model(
            _announced(options, named_by_records, progress),
            dtype=options.dtype,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
            progress=progress.say,
        )


def chosen(options: ModelOptions, named_by_records: str | None) -> ModelOptions:
    """Return the options with the name of the model that they come to."""
    of_records = not options.name and bool(named_by_records)
    return replace(options, name=model_name(options, named_by_records), of_records=of_records)


def model_name(options: ModelOptions, named_by_records: str | None) -> str:
    """Return the name of the model that ``load`` would load."""
    return options.name or named_by_records or os.environ.get("TOKUR_MODEL") or DEFAULT_MODEL


@contextmanager
def _naming_records(options: ModelOptions) -> Iterator[None]:
    """Say of a model that cannot be had where its name came from, if not from the user."""
    try:
        yield
    except TokurError as error:
        if not options.of_records:
            raise
        raise TokurError(f"{error}; the records name {options.name}, -m names another model to take") from error


def _announced(options: ModelOptions, named_by_records: str | None, progress: Progress) -> str:
    """Return the model's name, having said it: what comes now takes its time."""
    name = model_name(options, named_by_records)
    say(progress.command, f"loading {name}")
    return name
