"""What a model is to do with a stream of records, whether files hold them or dicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.shared.arrivals import Pause
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import chosen, describe, load
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm, with_ids_of
from tokur_cli.commands.shared.reading import model_named
from tokur_cli.commands.workers.pool import InProcess, Pool
from tokur_cli.commands.workers.worker import Pipeline
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation

if TYPE_CHECKING:
    from typing_extensions import Self

    from tokur_cli.commands.session.session import Session
    from tokur_cli.engine.loading.models import ModelDescription


AlreadyWritten = Callable[[Record], "Record | None"]
Lines = Callable[[Iterable[Record | RecordError | Pause], InvalidRecords, AlreadyWritten], Iterator[bytes]]


def session_of(pool: InProcess | Pool) -> Session:
    """Return the session of a pool that is this process."""
    assert isinstance(pool, InProcess)
    session: Session = pool.pipeline.session
    return session


def none_written(record: Record) -> None:
    """Return that no record is there yet, as in a run that continues no other."""


class Planned(NamedTuple):
    """What a record asks for.

    Args:
        prompt_ids: of it.
        response_ids: of the response; none where it is yet to be generated.
        written: how many of the records that it becomes are written already.
        missing: how many are not; with ``--stop-at``, at most.
    """

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    written: int
    missing: int


@dataclass(frozen=True)
class Run:
    """One stream of records through a job.

    Args:
        lines: from records, and the errors of those that could not be read, to records as they will be written, in
            order; told what happens to bad records, and which ones a resumed run need not compute. Raises TokurError:
            the first bad record, unless bad ones are skipped, or whatever else stops the run.
        resuming: what the records of its output are told by.
        busy: tells whether this process has work to go on with while no record comes.
        finish: says how it went, where there is something to say.
    """

    lines: Lines
    resuming: Continuation
    busy: Callable[[], bool] = lambda: False
    finish: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Job:
    """What is asked of a model, checked as far as can be before one is loaded; workers are sent it.

    Attributes:
        command: name for messages.
        needed: what a record has, as the names of its attributes.
    """

    model: ModelOptions
    form: PromptForm
    scoring: ScoringOptions

    command: ClassVar[str]
    needed: ClassVar[tuple[str, ...]]

    @property
    def takes_weights(self) -> bool:
        """Whether the process that works with the model loads its weights."""
        return True

    def choosing_model(self, first: Record | None) -> Self:
        """Return the job with the name of the model that it comes to, now that the first record is known.

        The model that a record names counts for its response: what answered a question before need not do so again.
        """
        named = model_named(first) if first and "response" in self.needed else None
        return replace(self, model=chosen(self.model, named))

    def session(self, description: ModelDescription, progress: Progress) -> Session:
        """Return a session of this job with a model."""
        from tokur_cli.commands.session.session import Session

        return Session(description, self.form, progress, self.scoring.batch_tokens)

    def start(self, progress: Progress, first: Record | None = None) -> Pipeline:
        """Load the model, in the process that works with it, and return what does the work.

        Args:
            progress: told of it.
            first: a record whose prompt ends the run if it cannot be made, which is then said before the weights are
                loaded.
        """

        def check(found: ModelDescription) -> None:
            if first is not None and not found.tokenizer.chat_template:
                self.form.apply(with_ids_of(first, found.name), self.session(found, progress).tokenizer)

        if not self.takes_weights:
            found = describe(self.model, progress)
            check(found)
        else:
            found = load(self.model, progress, layers_on_disk=self.scoring.engine.backend == "vllm", check=check)
        return self.pipeline(self.session(found, progress))

    def pipeline(self, session: Session) -> Pipeline:
        """Return what does the work, with a model that is loaded."""
        raise NotImplementedError


class StreamJob(Job, ABC):
    """A job whose records come one after the other, and are written one after the other.

    Attributes:
        makes_prompts: whether prompts are made where the records are read, so that the model is known there, too.
    """

    makes_prompts: ClassVar[bool]

    @property
    def outputs(self) -> int | None:
        """Records that each one becomes; None where that is not known before."""
        return 1

    @property
    def resumable(self) -> bool:
        """Whether an output that was cut off can be continued."""
        return True

    @property
    @abstractmethod
    def identity(self) -> Callable[[Record], object]:
        """What a record that is written and the one that it was made from have in common."""

    @abstractmethod
    def plan(
        self, session: Session, items: Iterable[Record | RecordError], already_written: AlreadyWritten
    ) -> Iterator[Planned | RecordError]:
        """Yield what each record asks for, and the errors of those that would be bad ones, with no weights at hand."""

    @abstractmethod
    def run(self, pool: InProcess | Pool, progress: Progress, description: ModelDescription | None = None) -> Run:
        """Return what takes a stream through a pool's work; a description is of a model that is not here."""
