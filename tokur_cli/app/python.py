"""The commands from Python: ``Tokur(model).score(records)`` is ``tokur score``, on dicts in place of lines."""

from __future__ import annotations

import atexit
import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from typer.main import get_group

from tokur_cli.app import app, usage_message
from tokur_cli.app.groups import SET
from tokur_cli.commands.generate.command import GenerateWork
from tokur_cli.commands.options.marks import names_of
from tokur_cli.commands.options.model import ModelOptions, PromptOptions
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score.work import ScoreWork
from tokur_cli.commands.session.model import load, refuse_autocast
from tokur_cli.commands.session.work import Work, none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.reading import BUSY, look_ahead, waited_for
from tokur_cli.commands.workers.pool import InProcess
from tokur_cli.records.errors import UsageError, there_are
from tokur_cli.records.reader import read_rows_of

if TYPE_CHECKING:
    from tokur_cli.commands.workers.worker import Pipeline

_UNREAD: WeakSet[Any] = WeakSet()
atexit.register(lambda: [one.close() for one in [*_UNREAD] if not one.gi_running])  # before modules go that it uses
_SOURCE = "records"  # what stands before a record's number in its error
_OF_COMMAND_LINE = {
    *(one.name for group in (InputOptions, ResumableOutput, WorkerOptions) for one in fields(group)),
    *("from_logprobs", "question", "backend", "tensor_parallel_size"),  # vLLM's processes would outlive a call
}

_OF_ANSWERS = {"model", "seed", *(one.name for group in (ModelOptions, PromptOptions) for one in fields(group))}


class ScoredRecord(dict[str, Any]):
    """A scored record, which a notebook shows as a heat map of its tokens."""

    def _repr_html_(self) -> str | None:
        from tokur_cli.commands.heatmap.notebook import picture_of  # of rich, whose import draws a random number

        return picture_of(self)


class Tokur:
    """A model that scores responses and answers questions as ``tokur score`` and ``tokur generate`` do.

    Records are dicts with the fields of a line (foreign formats are recognised too); they are taken and given one after
    the other, up to 16 ahead at first and then more. The numbers are those of the commands, to the last bit, and what
    the commands say on standard error is said there. The model is loaded when it is first needed, and kept.

    Args:
        model: hub id, folder or GGUF file; None is what the commands take without ``-m``.
        options: of ``tokur score``, by their names: ``draws=2, scores="eu,ll", dtype="float32"``.

    Raises:
        UsageError: there is no such option, or it cannot have this value.
        TokurError: a file that the options name cannot be read.
    """

    def __init__(self, model: str | None = None, **options: Any) -> None:
        if not isinstance(model, str | PathLike | None):
            found = type(model).__name__
            raise UsageError(f"model is a name or a folder, not of type {found}: give the folder that it is saved in")
        self._options = {"model": model, **options}
        groups = filled(_commands()["score"], self._options)
        self._model_options = groups["model"]
        self._scoring = ScoreWork.of(**groups)
        self._model: Any = None  # that is loaded
        self._loaded: tuple[str | None, str | None] | None = None  # as which, and with which adapter
        self._scorer: Pipeline | None = None

    @property
    def model(self) -> str | None:
        """The model that scores, whatever the records name; None where it is theirs."""
        return self._scoring.model.adapter or self._scoring.model.name

    def score(self, records: Iterable[Mapping[str, Any]]) -> Iterator[ScoredRecord]:
        """Yield the records with their scores, in order.

        Args:
            records: responses with their questions.

        Raises:
            RecordError: after all before it, a bad record; it names its number, from 1.
            TokurError: whatever else stops the command.
        """
        return self._carry_out(self._scoring, records, ScoredRecord)

    def generate(self, questions: str | Iterable[Mapping[str, Any]], **options: Any) -> Iterator[dict[str, Any]]:
        """Return the responses to the questions, in order, as records that ``score`` takes, or scored already.

        Args:
            questions: records with a question, or a question as a text.
            options: of ``tokur generate``, by their names: ``samples=16, temperature=0.8, score=True``. Those that are
                not given here are as they were given to ``Tokur``, which alone takes those that say how a model is
                loaded.

        Raises:
            UsageError: there is no such option, or it cannot have this value here.
            RecordError: later, after all before it, a bad record; it names its number, from 1.
            TokurError: a file that the options name cannot be read; later, whatever else stops the command.
        """
        is_scored = options.get("score") or options.get("guide") is not None
        own = {name: value for name, value in self._options.items() if is_scored or name in _OF_ANSWERS}
        groups = filled(_commands()["generate"], own | options)
        if groups["model"] != self._model_options:
            raise UsageError("generate takes Tokur's model: give another model, or how it is loaded, to Tokur")
        work = GenerateWork.of(**groups)
        work = replace(work, model=work.model if work.model.name else self._scoring.model)
        rows = [{"question": questions}] if isinstance(questions, str) else questions
        return self._carry_out(work, rows, ScoredRecord if work.score else dict)

    def _carry_out(self, work: Work, rows: Iterable[Mapping[str, Any]], kind: type[Any]) -> Iterator[Any]:
        """Yield what becomes of the rows, which may be no single one, whose fields would be taken for rows."""
        if isinstance(rows, Mapping | str):
            raise UsageError("give a list of records, not a single one")
        refuse_autocast()
        with Progress(work.command) as progress:
            with BUSY:
                read = read_rows_of(waited_for(rows), _SOURCE, progress.note, whole=work.command == "generate")
                items, first = look_ahead(read, *work.needed, skip_invalid=False)
                if first is None:
                    return
                pool = InProcess(self._pipeline(work.with_model(first), progress))
                stream = work.stream(pool, progress, InvalidRecords(work.command, skip=None))
            lines = stream.lines(items, none_written)
            _UNREAD.add(lines)
            while True:
                with BUSY:
                    if (line := next(lines, None)) is None:
                        return
                yield kind(json.loads(line))

    def _pipeline(self, work: Work, progress: Progress) -> Pipeline:
        """Return what does a work; what scores is kept, as is the model."""
        named = (work.model.name, work.model.adapter)
        if self._model is None or self._loaded != named:
            self._model = self._scorer = None
            gc.collect()  # before there are two
            self._model, self._loaded = load(work.model, progress), named
            gc.unfreeze()  # unlike a command, this process may outlive the model
        if not isinstance(work, ScoreWork):
            return work.pipeline(work.session(self._model, progress))
        self._scorer = self._scorer or work.pipeline(work.session(self._model, progress))
        return self._scorer


@cache
def _commands() -> Mapping[str, Any]:
    """Return the commands by their names, as click has them."""
    return get_group(app).commands


def filled(command: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups of options of a command of click's, filled by the options' long names.

    None and False leave an option at its default, and a list may stand for a text with commas.

    Raises:
        UsageError: there is no such option, or it cannot have this value.
    """
    parameters = command.groups.parameters
    flags = {names_of(one)[0]: one for one in parameters if one.name not in _OF_COMMAND_LINE}
    named = {flag.removeprefix(SET).strip("- ").replace("-", "_"): flag for flag in flags if flag[0] == "-"}
    words = []
    for name, value in options.items():
        if name not in named:
            raise UsageError(f"tokur {command.name} has no option {name} from Python{there_are(named, name)}")
        flag, default = named[name], flags[named[name]].default
        texts = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [f"{flag}={text}" for text in (texts if isinstance(default, list) else [",".join(texts)])]
    try:
        context = command.make_context(command.name, words)
    except Exception as error:
        raise UsageError(usage_message(error)) from None
    filled_groups: dict[str, Any] = command.groups.fill(context)
    return filled_groups
