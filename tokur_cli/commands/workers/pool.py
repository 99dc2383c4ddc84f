"""Tasks to workers and answers back in order, whatever becomes of a worker; what the tasks are is not known here."""

from __future__ import annotations

import asyncio
import itertools
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TypeAlias, TypeVar

from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.shared.errors import say
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.cluster import Share, divide_this_machine, running_ray
from tokur_cli.commands.workers.worker import Answer, MakePipeline, Worker
from tokur_cli.records.errors import TokurError

T = TypeVar("T")

DEATHS = 3  # as often a task may kill its worker, or a worker may die before it is ready
_AHEAD = 4  # read for each worker: what waits for its turn to be written keeps none of them waiting
_PLACED_WITHIN_SECONDS = 10.0


class InProcess:
    """This process does the work, with a pipeline of its own; what there is of a pool that a command sees."""

    standard_output: BinaryIO | None = None

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self.settings = pipeline.settings

    @property
    def device(self) -> str:
        """The kind of device that the model is on."""
        return str(self.pipeline.session.model.device.type)

    def map(self, tasks: Iterable[T], lost: Callable[[T], Iterable[Any]]) -> Iterator[Iterable[Any]]:
        """Yield what becomes of each task."""
        return map(self.pipeline.process, tasks)


@contextmanager
def open_pool(options: WorkerOptions, device_map: str, make: MakePipeline, progress: Progress) -> Iterator[Pool]:
    """Have the work done in this process or, where several are asked for, by workers."""
    if options.in_process or (options.address is None and divide_this_machine(options, device_map).workers == 1):
        yield InProcess(make(progress))
        return
    with running_ray(options, device_map) as (share, records):
        progress.say(f"starting {share.workers} workers")
        pool = RayPool(progress, share, make, records)
        try:
            yield pool
        finally:
            pool.close()


class _Job:
    """A task on its way, and what becomes of it."""

    def __init__(self, task: Any, lost: Callable[[Any], Iterable[Any]]) -> None:
        self.task, self.lost = task, lost
        self.deaths = 0
        self.outcomes: Future[list[Any]] = Future()


class RayPool:
    """Workers on a cluster, each with one task at a time.

    Ray could start dead ones anew and repeat their tasks, but it would do so without end where they die before they are
    ready, and wait with the task of a lost machine until there is another.
    """

    def __init__(self, progress: Progress, share: Share, make: MakePipeline, standard_output: BinaryIO) -> None:
        import ray
        from ray.util import placement_group

        self.progress, self.command, self.share = progress, progress.command, share
        self.device = "cuda" if share.gpus else "cpu"
        self.standard_output: BinaryIO | None = standard_output
        self._make = ray.put(make)
        needs = {"CPU": share.cpus, "GPU": share.gpus} if share.gpus else {"CPU": share.cpus}
        self._places = [placement_group([needs]) for _ in range(share.workers)]
        self._settings: Future[dict[str, Any]] = Future()
        self._workers = share.workers
        self._numbers = itertools.count()
        self._jobs: asyncio.PriorityQueue[tuple[int, _Job]] = asyncio.PriorityQueue()
        self._loop = asyncio.new_event_loop()
        self._work = self._loop.create_task(self._employ())
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._work], daemon=True)
        self._thread.start()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the first worker that is ready, which all others must have."""
        return self._settings.result()

    def map(self, tasks: Iterable[T], lost: Callable[[T], Iterable[Any]]) -> Iterator[Iterable[Any]]:
        """Yield what becomes of each task, in order; a thread reads them, only a few ahead.

        ``lost`` tells what becomes of a task that has killed its worker three times.
        """
        read: queue.Queue[_Job | Exception | None] = queue.Queue(_AHEAD * self.share.workers - 1)

        def hand_out() -> None:
            try:
                for task in tasks:
                    job = _Job(task, lost)
                    read.put(job)
                    self._loop.call_soon_threadsafe(self._jobs.put_nowait, (next(self._numbers), job))
                read.put(None)
            except Exception as error:
                read.put(error)

        threading.Thread(target=hand_out, daemon=True).start()
        while isinstance(job := read.get(), _Job):
            yield job.outcomes.result()
        if job is not None:
            raise job

    def close(self) -> None:
        """Care no more: that workers die from now on is meant."""
        self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join()
        self._loop.close()

    # In the pool's own thread

    async def _employ(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(self._say_who_waits(), *map(self._direct, self._places), return_exceptions=True)

    async def _direct(self, place: Any) -> None:
        """Keep a worker at work in a place, and put another one there when it dies."""
        try:
            while ready := await self._start(place):
                while await self._do_next(*ready):
                    pass
        except Exception as error:
            if not self._settings.done():
                self._settings.set_exception(error)
            while True:  # whoever waits for what it would have done has the error
                (await self._jobs.get())[1].outcomes.set_exception(error)

    async def _start(self, place: Any) -> tuple[Any, str] | None:
        """Return a worker that is ready, and its machine's name, or None if the others have to do without."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        worker: Any = ray.remote(num_cpus=self.share.cpus, num_gpus=self.share.gpus)(Worker)
        for _ in range(DEATHS):
            actor = worker.options(scheduling_strategy=PlacementGroupSchedulingStrategy(place)).remote()
            try:
                report = await self._hear(actor.start.remote(self._make, self.command, os.getcwd()))
            except ray.exceptions.RayError:
                continue
            if not self._settings.done():
                self._settings.set_result(report.outcome)
            for name, value in self.settings.items():
                if report.outcome.get(name) != value:
                    raise TokurError(
                        f"the worker on {report.host} has {name} {report.outcome.get(name)!r}, but the first one has "
                        f"{value!r}: all machines need the same model and version of tokur"
                    )
            return actor, report.host
        self._workers -= 1
        message = f"a worker died {DEATHS} times before it was ready: is there too little memory for the model?"
        if not self._workers:
            raise TokurError(message)
        say(self.command, f"{message} {self._workers} are left")
        return None

    async def _do_next(self, actor: Any, host: str) -> bool:
        """Give a worker the first task that waits; return whether it outlived it."""
        import ray

        number, job = await self._jobs.get()
        try:
            job.outcomes.set_result((await self._hear(actor.process.remote(job.task))).outcome)
        except ray.exceptions.RayError:
            ray.kill(actor)  # it may be out of reach only
            say(self.command, f"a worker on {host} died; another one takes its place and repeats its work")
            job.deaths += 1
            if job.deaths < DEATHS:
                self._jobs.put_nowait((number, job))
            else:
                job.outcomes.set_result(list(job.lost(job.task)))
            return False
        except Exception as error:
            job.outcomes.set_exception(error)
        return True

    async def _hear(self, answer: Awaitable[Answer]) -> Answer:
        """Return what a worker answers, once it has; say its notes, each one once."""
        import ray

        try:
            heard = await answer
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        for text in heard.notes:
            self.progress.note(text)
        return heard

    async def _say_who_waits(self) -> None:
        from ray.util import placement_group_table

        await asyncio.sleep(_PLACED_WITHIN_SECONDS)
        if waiting := sum(placement_group_table(place)["state"] != "CREATED" for place in self._places):
            needs = f"{self.share.cpus} CPUs and {self.share.gpus} GPUs"
            say(self.command, f"{waiting} of {len(self._places)} workers wait for a place with {needs}")


Pool: TypeAlias = InProcess | RayPool
