"""What is asked of a model, and what takes a stream of records through the processes that work with one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tokur_cli.commands.options.model import ModelOptions
from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.session.model import choose_model, describe, load, model_named
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.shared.prompts import PromptForm, with_ids_of
from tokur_cli.commands.workers.pool import Pool
from tokur_cli.commands.workers.worker import Pipeline
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation

if TYPE_CHECKING:
    from typing_extensions import Self

    from tokur_cli.commands.session.session import Session
    from tokur_cli.engine.model.load import ModelDescription

AlreadyWritten = Callable[[Record], "Record | None"]
Items = Iterable[Record | RecordError | None]
"""Records, the errors of those that could not be read, and None where nothing comes for the moment."""


def none_written(record: Record) -> None:
    """Return that no record is there yet, as in a run that continues no other."""


class Stream(ABC):
    """Takes one stream of records through a pool's processes; ``resuming`` is what those of its output are told by."""

    resuming: Continuation

    @property
    def busy(self) -> bool:
        """Whether this process has work to go on with while no record comes."""
        return False

    @abstractmethod
    def lines(self, items: Items, already_written: AlreadyWritten) -> Iterator[bytes]:
        """Yield records as they will be written, in order, but for those already written; at the end, say how it went.

        Raises:
            TokurError: the first bad record, unless bad ones are skipped, or whatever else stops the run.
        """


@dataclass(frozen=True)
class Work(ABC):
    """What is asked of a model, checked as far as can be before one is loaded; workers are sent it."""

    model: ModelOptions
    form: PromptForm
    scoring: ScoringOptions

    command: ClassVar[str]  # name for messages
    needed: ClassVar[tuple[str, ...]]  # what a record has, as the names of its attributes
    # Whether prompts are made where the records are read, so that the model is known there, too
    makes_prompts: ClassVar[bool] = False

    @property
    def takes_weights(self) -> bool:
        """Whether the process that works with the model loads its weights."""
        return True

    @property
    def outputs(self) -> int | None:
        """Records that each one becomes; None where that is not known before."""
        return 1

    @property
    def resumable(self) -> bool:
        """Whether an output that was cut off can be continued."""
        return True

    def with_model(self, first: Record) -> Self:
        """Return the work with the name of the model that it comes to, now that the first record is known.

        The model that a record names counts for its response: what answered a question before need not do so again.
        """
        if "response" not in self.needed:
            return replace(self, model=choose_model(self.model))
        chosen = choose_model(self.model, model_named(first))
        if chosen.is_default:
            say(
                self.command,
                f"the records don't name the model that wrote them; scoring with the small demo model {chosen.name}; "
                "give -m MODEL",
            )
        return replace(self, model=chosen)

    def session(self, description: ModelDescription, progress: Progress) -> Session:
        """Return a session of this work with a model."""
        from tokur_cli.commands.session.session import Session

        return Session(description, self.form, progress, self.scoring.batch_tokens)

    def start(self, progress: Progress, first: Record | None = None) -> Pipeline:
        """Load the model, in the process that works with it, and return what does the work.

        If the prompt of the first record cannot be made, this ends the run before the weights are loaded.
        """

        def check(found: ModelDescription) -> None:
            if first is not None and not found.tokenizer.chat_template:
                self.form.apply(with_ids_of(first, found.name), self.session(found, progress).tokenizer)

        found: ModelDescription
        if self.takes_weights:
            found = load(self.model, progress, check)
        else:
            found = describe(self.model, progress)
            check(found)
        return self.pipeline(self.session(found, progress))

    @abstractmethod
    def pipeline(self, session: Session) -> Pipeline:
        """Return what does the work, with a model that is loaded."""

    @abstractmethod
    def stream(self, pool: Pool, progress: Progress, invalid: InvalidRecords, session: Session | None = None) -> Stream:
        """Return what takes a stream through a pool's work; a session is of a model whose weights are not here."""

    @abstractmethod
    def count_tokens(self, session: Session, record: Record) -> tuple[int, int]:
        """Return the tokens of a record's prompt, and of its response or 0."""

    @abstractmethod
    def count_batches(self, lengths: Sequence[int], device: str) -> int:
        """Return how many batches there will be, about; by the tokens of each record and the kind of device."""
