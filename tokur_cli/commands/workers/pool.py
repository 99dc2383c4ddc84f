"""Tasks to workers and answers back in order, whatever becomes of a worker; what the tasks are is not known here."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, TypeVar

from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.shared.errors import say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.cluster import Share, divide_this_machine, running_ray
from tokur_cli.commands.workers.worker import Answer, MakePipeline, Worker
from tokur_cli.records.errors import TokurError

T = TypeVar("T")

DEATHS = 3
"""As often a task may kill its worker, or a worker may die before it is ready."""
_HANDED_OUT = 2  # to each worker: one at work, one to go on with
_AHEAD = 4  # read for each worker: what waits for its turn to be written keeps none of them waiting
_PLACED_WITHIN_SECONDS = 10.0


class InProcess:
    """This process does the work, with a pipeline of its own; what there is of a pool that a command sees."""

    standard_output: BinaryIO | None = None

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.settings = pipeline.settings

    def map(self, tasks: Iterable[T], lost: Callable[[T], Iterable[Any]]) -> Iterator[tuple[T, Iterable[Any]]]:
        """Yield each task with what becomes of it."""
        asked, answered = itertools.tee(tasks)
        return zip(asked, map(self.pipeline.answer, answered), strict=True)


@contextmanager
def workforce(
    command: str, options: WorkerOptions, device_map: str, make: MakePipeline, progress: Progress
) -> Iterator[InProcess | Pool]:
    """Have the work done in this process or, where several are asked for, by workers.

    Args:
        command: name for messages.
        options: how many, and where.
        device_map: where each puts its model.
        make: loads the model.
        progress: told of work done in this process.

    Raises:
        TokurError: the model can't be loaded, or the workers can't be had.
    """
    if options.in_process or (options.address is None and divide_this_machine(options, device_map).workers == 1):
        yield InProcess(make(progress, partial(say, command)))
        return
    with running_ray(options, device_map) as (share, records):
        progress.say(f"starting {share.workers} workers")
        pool = Pool(command, share, make, records)
        try:
            yield pool
        finally:
            pool.close()


class _Job:
    """A task on its way."""

    def __init__(self, task: Any, lost: Callable[[Any], Iterable[Any]]) -> None:
        self.task, self.lost = task, lost
        self.deaths = 0
        self.outcomes: Future[Iterable[Any]] = Future()


class _Member:
    """A worker as the pool sees it; after a death it has another process in the same place."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.actor: Any = None
        self.host = ""  # of one that is ready
        self.false_starts = 0
        self.jobs: list[_Job] = []  # in the order in which it does them


class Pool:
    """Workers on a cluster; a thread of its own deals with what is asked of them and what becomes of them.

    Args:
        command: name for messages.
        share: how many workers, and what each gets.
        make: makes a worker's pipeline.
        standard_output: where nothing but what is written there goes.
    """

    def __init__(self, command: str, share: Share, make: MakePipeline, standard_output: BinaryIO) -> None:
        import ray
        from ray.util import placement_group

        self.command, self.share = command, share
        self.standard_output: BinaryIO | None = standard_output
        self._make = ray.put(make)
        self._actors: Any = ray.remote(Worker)
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._settings: Future[dict[str, Any]] = Future()
        self._error: Exception | None = None
        self._notes: set[str] = set()
        self._waiting: deque[_Job] = deque()
        needs = {"CPU": share.cpus, "GPU": share.gpus} if share.gpus else {"CPU": share.cpus}
        self._members = [_Member(placement_group([needs])) for _ in range(share.workers)]
        for member in self._members:
            self._start(member)
        late = threading.Timer(_PLACED_WITHIN_SECONDS, self._events.put, [self._say_who_waits])
        late.daemon = True
        late.start()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the first worker that is ready, which all others must have.

        Raises:
            TokurError: no worker can be made.
        """
        return self._settings.result()

    def map(self, tasks: Iterable[T], lost: Callable[[T], Iterable[Any]]) -> Iterator[tuple[T, Iterable[Any]]]:
        """Yield each task with what becomes of it, in order, as soon as those before it are there.

        Args:
            tasks: read in a thread, only a few ahead.
            lost: tells what becomes of a task that has killed its worker three times.

        Raises:
            TokurError: a worker can't go on, or would compute something else.
            Exception: what reading the tasks raises, after those before it.
        """
        read: queue.SimpleQueue[_Job | Exception | None] = queue.SimpleQueue()
        room = threading.Semaphore(_AHEAD * self.share.workers)

        def hand_out() -> None:
            try:
                for task in tasks:
                    room.acquire()
                    job = _Job(task, lost)
                    read.put(job)
                    self._events.put(partial(self._take, job))
                read.put(None)
            except Exception as error:
                read.put(error)

        threading.Thread(target=hand_out, daemon=True).start()
        while isinstance(job := read.get(), _Job):
            yield job.task, job.outcomes.result()
            room.release()
        if job is not None:
            raise job

    def close(self) -> None:
        """Care no more: that workers die from now on is meant."""
        self._error = TokurError("the run is over")
        self._events.put(None)
        self._thread.join()

    # In the pool's own thread

    def _work(self) -> None:
        while (deal_with := self._events.get()) is not None:
            try:
                deal_with()
                if self._error is None:
                    self._give_out()
            except Exception as error:
                self._fail(error)

    def _take(self, job: _Job) -> None:
        if self._error is None:
            self._waiting.append(job)
        else:
            job.outcomes.set_exception(self._error)

    def _start(self, member: _Member) -> None:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        member.actor = self._actors.options(
            num_cpus=self.share.cpus,
            num_gpus=self.share.gpus,
            scheduling_strategy=PlacementGroupSchedulingStrategy(member.place),
        ).remote()
        self._expect(member.actor.start.remote(self._make, self.command, os.getcwd()), partial(self._started, member))

    def _expect(self, reference: Any, then: Callable[[Any], None]) -> None:
        """Call ``then`` with what comes of a call to a worker, or the error."""

        def hear(future: Future[Any]) -> None:
            if self._error is None:
                then(future.exception() or future.result())

        # In a thread of Ray's, which must not wait
        reference.future().add_done_callback(lambda future: self._events.put(partial(hear, future)))

    def _give_out(self) -> None:
        """Give the waiting tasks to the workers that have least to do; one that may have killed a worker goes alone."""
        ready = [member for member in self._members if member.host]
        while self._waiting and ready:
            member = min(ready, key=lambda member: len(member.jobs))
            alone = any(job.deaths for job in (self._waiting[0], *member.jobs))
            if len(member.jobs) >= (1 if alone else _HANDED_OUT):
                return
            job = self._waiting.popleft()
            member.jobs.append(job)
            self._expect(member.actor.answer.remote(job.task), partial(self._answered, member, member.actor, job))

    def _started(self, member: _Member, report: Answer | Exception) -> None:
        if isinstance(report, Exception):
            self._bury(member, report)
            return
        self._say_once(report.notes)
        if not self._settings.done():
            self._settings.set_result(report.outcome)
        for name, value in self.settings.items():
            if report.outcome.get(name) != value:
                raise TokurError(
                    f"the worker on {report.host} has {name} {report.outcome.get(name)!r}, but the first one has "
                    f"{value!r}: all machines need the same model and version of tokur"
                )
        member.host, member.false_starts = report.host, 0

    def _answered(self, member: _Member, actor: Any, job: _Job, answer: Answer | Exception) -> None:
        if member.actor is not actor:  # it is dead, and its work given to others
            return
        if isinstance(answer, Exception):
            self._bury(member, answer)
            return
        self._say_once(answer.notes)
        member.jobs.remove(job)
        job.outcomes.set_result(answer.outcome)

    def _bury(self, member: _Member, error: Exception) -> None:
        """Put another worker in the place of a dead one, and give its work to others.

        Raises:
            Exception: it isn't dead, but this is what it raised.
        """
        import ray

        if isinstance(error, ray.exceptions.RayTaskError):
            raise error.cause
        ray.kill(member.actor)  # it may be out of reach only
        if member.host:
            say(self.command, f"a worker on {member.host} died; another one takes its place and repeats its work")
        else:
            member.false_starts += 1
        member.host = ""
        for job in reversed(member.jobs):
            job.deaths += 1
            if job.deaths < DEATHS:
                self._waiting.appendleft(job)
            else:
                job.outcomes.set_result(job.lost(job.task))
        member.jobs = []
        if member.false_starts < DEATHS:
            self._start(member)
            return
        self._members.remove(member)
        message = f"a worker died {DEATHS} times before it was ready: is there too little memory for the model?"
        if not self._members:
            raise TokurError(message)
        say(self.command, f"{message} {len(self._members)} are left")

    def _fail(self, error: Exception) -> None:
        """Let whoever waits have the error."""
        self._error = error
        if not self._settings.done():
            self._settings.set_exception(error)
        for job in (*self._waiting, *(job for member in self._members for job in member.jobs)):
            job.outcomes.set_exception(error)
        self._waiting.clear()
        self._members.clear()

    def _say_once(self, notes: Iterable[str]) -> None:
        for text in notes:
            if text not in self._notes:
                self._notes.add(text)
                say(self.command, text)

    def _say_who_waits(self) -> None:
        import ray
        from ray.util import placement_group_table

        states = [placement_group_table(member.place)["state"] for member in self._members]
        if waiting := sum(state != "CREATED" for state in states):
            have, free = ray.cluster_resources(), ray.available_resources()
            gpus = f" and {self.share.gpus} GPU{'s' * (self.share.gpus > 1)}" if self.share.gpus else ""
            say(
                self.command,
                f"{waiting} of {len(states)} workers wait for a place with {self.share.cpus} free "
                f"CPU{'s' * (self.share.cpus > 1)}{gpus}: the cluster has {have.get('CPU', 0):g} CPUs, "
                f"{free.get('CPU', 0):g} of them free, and {have.get('GPU', 0):g} GPUs, {free.get('GPU', 0):g} free",
            )
