"""Which model a command loads.

Everything up to here runs without torch and transformers, whose import takes seconds: mistakes are reported first.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tokur_cli.commands.options.model import ModelOptions, NamedModel
from tokur_cli.commands.shared.errors import say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.model.cached import DEFAULT_MODEL
from tokur_cli.engine.model.load import LanguageModel, ModelDescription, describe_model, load_language_model
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.record import Record

_MADE = ("generation", "run")  # where a record says of which model and revision it is


def choose_model(options: ModelOptions, named: NamedModel | None = None) -> ModelOptions:
    """Return the options with the model's name: as asked for, else the records' own, TOKUR_MODEL's, the embedded."""
    if options.name is None and options.adapter is not None:  # on its own base
        return _at_revision(replace(options, name=options.adapter, adapter=None))
    found = options.or_named(named)
    name = found.name or os.environ.get("TOKUR_MODEL")
    own = replace(found, name=name or DEFAULT_MODEL, of_records=found is not options, is_default=not name)
    return _at_revision(own)


def model_named(record: Record) -> NamedModel | None:
    """Return the model that a record names, at the revision that the response is of."""
    name, base = record.tokur.get("model"), record.tokur.get("base")
    if not isinstance(name, str):
        return None
    made: Mapping[str, Any] = next((how for how in map(record.computed, _MADE) if how.get("model") == name), {})
    if isinstance(base, str):
        return NamedModel(name, _named(base, made.get("base_revision")))
    return NamedModel(_named(name, made.get("revision")), None)


def _named(name: str, revision: object) -> str:
    is_of_hub = "@" not in name and not os.path.exists(name)
    return f"{name}@{revision}" if isinstance(revision, str) and is_of_hub else name


def _at_revision(options: ModelOptions) -> ModelOptions:
    """Return the options with what follows an @ in the name of a model on the hub as its branch, tag or commit."""
    name, _, revision = str(options.name).partition("@")
    if not revision or os.path.exists(str(options.name)):
        return options
    return replace(options, name=name, revision=revision)


def load(
    options: ModelOptions, progress: Progress, check: Callable[[ModelDescription], None] = lambda _: None
) -> LanguageModel:
    """Load a model whose name ``choose_model`` has chosen, unless ``check`` raises before its weights are loaded."""
    with _announced(options, progress):
        return load_language_model(options.request, check=check, progress=progress.say)


def describe(options: ModelOptions, progress: Progress) -> ModelDescription:
    """Find the model that ``load`` would load, without loading its weights."""
    with _announced(options, progress):
        return describe_model(options.request, progress.say)


def refuse_autocast() -> None:
    """Raise a UsageError where a caller's ``torch.autocast`` would have numbers computed in another dtype."""
    if "torch" in sys.modules and any(map(sys.modules["torch"].is_autocast_enabled, ("cpu", "cuda"))):
        raise UsageError("torch.autocast is on, and would change the numbers: call tokur outside of it")


@contextmanager
def _announced(options: ModelOptions, progress: Progress) -> Iterator[None]:
    """Say what takes its time now, and of a model that cannot be had where its name came from, if not from the user.

    What is made, modules and models, lasts as long as the process and is exempt from garbage collection: torch and
    transformers make a million objects, and going through them again and again takes as long as making them.
    """
    say(progress.command, f"loading {options.name}{f' with {options.adapter}' if options.adapter else ''}")
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    except TokurError as error:
        if not options.of_records or options.device_map != "auto":
            raise
        raise TokurError(f"{error}; the records name {options.name}, -m names another model to take") from error
    finally:
        gc.freeze()
        if collecting:
            gc.enable()
