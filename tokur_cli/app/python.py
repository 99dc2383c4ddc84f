"""The commands from Python: ``Tokur(model).score(records)`` is ``tokur score``, on dicts in place of lines."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from tokur_cli.app import app
from tokur_cli.app.commands import generate, score, together
from tokur_cli.app.groups import Groups, given_in
from tokur_cli.app.refusals import usage_message
from tokur_cli.commands.generate.command import check_generation
from tokur_cli.commands.heatmap.notebook import picture_of
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score.command import check_scoring
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.model import load, model_name
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm
from tokur_cli.commands.shared.reading import look_ahead, model_named
from tokur_cli.commands.workers.pool import InProcess
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.reader import read_rows_of
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.commands.score.pipeline import Scoring

_SOURCE = "records"  # what stands before a record's number in its error
_OF_FILES = {field.name for group in (InputOptions, ResumableOutput, WorkerOptions) for field in fields(group)}


class ScoredRecord(dict[str, Any]):
    """A scored record, which a notebook shows as a heat map of its tokens."""

    def _repr_html_(self) -> str | None:
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
        self._options = {"model": model, **options}
        groups = _filled(score, self._options)
        self._model, posterior = groups["model"], groups["posterior"]
        scoring = replace(groups["scoring"], posterior=posterior)
        self._baselines = replace(groups["baselines"], seed=posterior.seed)
        self._scoring, self._model_of_posterior = check_scoring(scoring)
        self._form = PromptForm(groups["prompts"])
        self._loaded: tuple[str, Any] | None = None  # the model that is loaded, by its name
        self._pipeline: Scoring | None = None

    @property
    def model(self) -> str | None:
        """The model that scores, whatever the records name; None where it is theirs."""
        return self._model.name or self._model_of_posterior

    def score(self, records: Iterable[Mapping[str, Any]]) -> Iterator[ScoredRecord]:
        """Yield the records with their scores, in order.

        Args:
            records: responses with their questions.

        Raises:
            RecordError: after all before it, a bad record; it names its number, from 1.
            TokurError: whatever else stops the command.
        """
        items, first = look_ahead(
            read_rows_of(_several(records), _SOURCE, partial(say, "score")), "prompt", "response", skip_invalid=False
        )
        if first is None:
            return
        with Progress("score") as progress:
            model = self._load(self._model_of_posterior or model_named(first), progress)
            from tokur_cli.commands.score.pipeline import Scoring
            from tokur_cli.commands.score.windows import score_records

            if self._pipeline is None or self._pipeline.language_model is not model:
                note = partial(say, "score")
                self._pipeline = Scoring(self._scoring, self._baselines, self._form, model, progress, note)
            force, invalid = InProcess(self._pipeline), InvalidRecords("score", skip=False)
            for line in score_records(items, force, self._scoring, self._baselines, invalid, progress):
                yield ScoredRecord(json.loads(line))

    def generate(self, questions: Iterable[Mapping[str, Any]], **options: Any) -> Iterator[dict[str, Any]]:
        """Return the responses to the questions, in order, as records that ``score`` takes, or scored already.

        Args:
            questions: records with a question.
            options: of ``tokur generate``, by their names: ``samples=16, temperature=0.8, score=True``. Those that are
                not given here are as they were given to ``Tokur``, which alone takes those that say how a model is
                loaded.

        Raises:
            UsageError: there is no such option, or it cannot have this value here.
            RecordError: later, after all before it, a bad record; it names its number, from 1.
            TokurError: a file that the options name cannot be read; later, whatever else stops the command.
        """
        groups = _filled(generate, options, self._options)
        if groups["model"] != self._model:
            raise UsageError(
                "generate uses the model that Tokur has: give model, dtype, device_map, revision and "
                "trust_remote_code to another Tokur(…)"
            )
        if groups["decoding"].backend == "vllm":
            raise UsageError("from Python, generate has no backend vllm: run tokur generate --backend vllm")
        names = ("decoding", "guided", "posterior", "scoring", "baselines")
        decoding, scoring, baselines = together(*(groups[name] for name in names))
        scoring, model_of_posterior = check_generation(decoding, scoring, score=groups["score"])
        groups |= {"decoding": decoding, "scoring": scoring, "baselines": baselines}
        return self._generate(questions, groups, model_of_posterior or self._model_of_posterior)

    def _generate(
        self, questions: Iterable[Mapping[str, Any]], groups: dict[str, Any], model_of_posterior: str | None
    ) -> Iterator[dict[str, Any]]:
        items, first = look_ahead(
            read_rows_of(_several(questions), _SOURCE, partial(say, "generate")), "prompt", skip_invalid=False
        )
        if first is None:
            return
        with Progress("generate") as progress:
            model = self._load(model_of_posterior, progress)
            from tokur_cli.commands.generate.generation import Generation, make_responding
            from tokur_cli.commands.score.windows import score_records

            decoding, scoring, baselines, score = (
                groups[name] for name in ("decoding", "scoring", "baselines", "score")
            )
            form, note = PromptForm(groups["prompts"]), partial(say, "generate")
            force = InProcess(make_responding(model, decoding, form, scoring, baselines, progress, note, score=score))
            generation = Generation(force, None, decoding, form, score=score)
            responses, invalid = generation.run(items, skip_invalid=False), InvalidRecords("generate", skip=False)
            if score:
                for line in score_records(responses, force, scoring, baselines, invalid, progress):
                    yield ScoredRecord(json.loads(line))
            else:
                for item in responses:
                    if isinstance(item, RecordError):
                        raise item
                    if isinstance(item, Record):
                        yield json.loads(item.encode())
            generation.course.tell("generate")

    def _load(self, named_by_records: str | None, progress: Progress) -> Any:
        name = model_name(self._model, named_by_records)
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = self._pipeline = None
            gc.collect()  # before there are two
            self._loaded = name, load(replace(self._model, name=name), None, progress)
            gc.unfreeze()  # unlike a command, this process may outlive the model
        return self._loaded[1]


def _several(records: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Return the records.

    Raises:
        UsageError: it is a single one, whose fields would be taken for records.
    """
    if isinstance(records, Mapping | str):
        raise UsageError("give a list of records, not a single one")
    return records


def _filled(command: Any, options: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a command's groups of options with values as they would be given on its command line.

    Args:
        command: the command.
        options: by their names.
        beside: others, given for all commands; those that say nothing in this one are left out.

    Raises:
        UsageError: there is no such option, or it cannot have this value.
    """
    parser = get_command(app).commands[command.__name__]  # type: ignore[attr-defined]
    known = {
        flag.lstrip("-").replace("-", "_"): parameter.name
        for parameter in parser.params
        if parameter.name not in {*_OF_FILES, "show_prompts", "from_logprobs"}
        for flag in parameter.opts
        if flag.startswith("-")
    }
    options, own = {**(beside or {}), **options}, options
    for name in options:
        if name not in known:
            raise UsageError(
                f"tokur {command.__name__} has no option {name} from Python; there are: {', '.join(known)}"
            )
    several = {parameter.name for parameter in parser.params if getattr(parameter, "multiple", False)}
    values = {known[name]: value for name, value in options.items() if value is not None}
    for name, value in values.items():
        if isinstance(value, list | tuple) and name not in several:  # on the command line with commas between them
            values[name] = ",".join(map(str, value))
    try:
        context = parser.make_context(command.__name__, [], default_map=values)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's errors about usage, of which typer has its own copy
            raise
        raise UsageError(usage_message(error)) from None
    groups, given = Groups(command), given_in(context)
    idle = groups.call(context.params, given).lacking() - {known[name] for name in own}
    if idle:
        return _filled(command, {name: value for name, value in options.items() if known[name] not in idle})
    return groups.fill(context.params, given)
