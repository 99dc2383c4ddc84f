"""``--dry-run``: what a run would do and take, told before it is begun."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tokur_cli.commands.baselines.features import largest_window
from tokur_cli.commands.generate.command import GenerateJob
from tokur_cli.commands.options.scoring import default_batch_tokens
from tokur_cli.commands.options.streams import InputOptions, ResumableOutput
from tokur_cli.commands.score.checked import needs_of
from tokur_cli.commands.score.windows import window_sizes, windows
from tokur_cli.commands.session.job import AlreadyWritten, Planned, StreamJob, none_written
from tokur_cli.commands.session.session import CACHE_SHARE, ROWS
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.model import outline
from tokur_cli.commands.shared.progress import Progress, duration
from tokur_cli.commands.shared.reading import look_ahead, read_input
from tokur_cli.commands.workers.pool import InProcess
from tokur_cli.engine.forward.prefix_tree import shares_prefixes
from tokur_cli.engine.generation.cache import kept_bytes
from tokur_cli.engine.halving import HalvingBatches
from tokur_cli.engine.loading.hardware import device_type, place_weights
from tokur_cli.engine.loading.models import Outline
from tokur_cli.engine.memory import free_bytes
from tokur_cli.engine.scoring.scorer import TokenizedResponse, cut
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import Continuation, RecordWriter
from tokur_cli.scores.quantities import OF_DRAWS


def reckon(job: StreamJob, source: InputOptions, target: ResumableOutput, trial: int) -> None:
    """Tell what a run would do and take, without its weights; all bad records are reported.

    Args:
        job: what would be done.
        source: the input.
        target: the output, which is only read.
        trial: how many records are done, to reckon the time of all; 0 for none.

    Raises:
        TokurError: the run would fail: there are bad records that are not skipped, or too little memory.
    """
    items, first = look_ahead(read_input(job.command, source), *job.needed, skip_invalid=True)
    invalid = InvalidRecords(job.command, skip=True)
    if first is None:
        list(invalid.good(items))
        invalid.finish(none_of=display_name(source.path))
        return
    job = job.choosing_model(first)
    progress = Progress(job.command)
    model = outline(job.model, progress)
    session = job.session(model.description, progress)
    tried: list[Record] = []
    planned: list[Planned] = []
    with _written(job, target) as already_written:
        taken = _Taken(items)
        for plan in invalid.good(job.plan(session, taken, already_written)):
            planned.append(plan)
            if plan.missing and len(tried) < trial:
                assert isinstance(taken.last, Record)
                tried.append(taken.last)
    device = device_type(job.model.device_map)
    needs = _needs(job, model, planned, device)
    told: dict[str, Any] = {
        "model": model.description.name,
        "dtype": model.description.dtype,
        "device": device,
        "records": sum(plan.written + plan.missing for plan in planned),
        "written": sum(plan.written for plan in planned),
        "invalid": invalid.count,
        "prompt_tokens": _spread(len(plan.prompt_ids) for plan in planned),
        **needs,
    }
    if tried:
        told["time"] = _timed(job, tried, planned, progress)
    with naming(STANDARD_OUTPUT):
        print(_in_words(told) if sys.stdout.isatty() else encode_value(told).decode())
    if job.takes_weights and model.weights_bytes is not None:
        place_weights(job.model.device_map, model.weights_bytes, job.model.offload)
    if invalid.count and not source.skip_invalid:
        raise TokurError("a run ends at the first bad record: mend them, or give --skip-invalid")
    invalid.finish()


class _Taken:
    """A stream that knows what was last taken from it."""

    def __init__(self, items: Iterable[Record | RecordError]) -> None:
        self._items = iter(items)
        self.last: Record | RecordError | None = None

    def __iter__(self) -> Iterator[Record | RecordError]:
        for item in self._items:
            self.last = item
            yield item


@contextmanager
def _written(job: StreamJob, target: ResumableOutput) -> Iterator[AlreadyWritten]:
    """Give what tells records that a resumed run would not do again; that settings differ is told by that run."""
    if not (target.resume and target.path and os.path.isfile(target.path)):
        yield none_written
        return
    resuming = Continuation(identity=job.identity)
    with open(os.devnull, "wb") as nowhere:
        there = RecordWriter(nowhere, target.path, resume=True, resuming=resuming)
        yield there.already_written
        there.check_passed()


def _needs(job: StreamJob, model: Outline, planned: Sequence[Planned], device: str) -> dict[str, Any]:
    """Return the work and the memory that records need."""
    found: dict[str, Any] = {}
    memory: dict[str, int | None] = {"weights": model.weights_bytes}
    free = free_bytes(device)
    longest = max((len(plan.prompt_ids) + len(plan.response_ids) for plan in planned), default=0)
    if isinstance(job, GenerateJob):
        missing, most = sum(plan.missing for plan in planned), job.decoding.max_new_tokens
        found["response_tokens"] = {"max": most, "sum_at_most": missing * most}
        memory["keys_and_values"] = job.decoding.engine.cache_bytes
        longest = min(longest + most, model.description.context_length or longest + most)
        if job.decoding.engine.backend == "transformers":
            found["rows"], memory["keys_and_values"] = _rows(job, model, missing, longest, free)
    else:
        found["response_tokens"] = _spread(len(plan.response_ids) for plan in planned)
    if not isinstance(job, GenerateJob) or job.score:
        by_vllm = job.scoring.engine.backend == "vllm"
        if by_vllm:
            memory["keys_and_values"] = job.scoring.engine.cache_bytes
        needs = needs_of(job.scoring)
        members = 1 if needs.isdisjoint(OF_DRAWS) else 1 + job.scoring.posterior.members
        positions = job.scoring.batch_tokens or default_batch_tokens(device)
        if not isinstance(job, GenerateJob):
            sizes = window_sizes(largest_window(needs, job.scoring.baselines, positions))
            batches = _batches(windows(planned, sizes), positions // members, by_vllm or shares_prefixes(model.empty))
            found["passes"] = {"batches": batches, "members": members}
    return {**found, "memory": {**memory, "free": free}}


def _rows(job: GenerateJob, model: Outline, missing: int, longest: int, free: int) -> tuple[int, int | None]:
    """Return how many responses are generated at once, and what their keys and values take at their longest."""
    rows = min(missing, job.decoding.batch_size or ROWS)
    kept = _kept_bytes(model)
    if kept is None:
        return rows, None
    response = longest * kept[0] + kept[1]
    room = job.decoding.engine.cache_bytes
    if room is None:
        room = int((free - (model.weights_bytes or 0)) * CACHE_SHARE)
    rows = min(rows, max(1, room // response))
    return rows, rows * response


def _batches(cut_windows: Iterable[Sequence[Planned]], budget: int, sharing: bool) -> int:
    """Return how many batches are computed."""
    size, count = HalvingBatches(budget), 0
    for window in cut_windows:
        responses = [TokenizedResponse(plan.prompt_ids, plan.response_ids) for plan in window]
        lengths = {index: response.length for index, response in enumerate(responses)}
        for batch, _ in cut(responses, lengths, size, lengths if sharing else ()):
            count += any(window[index].missing for index in batch)
    return count


def _kept_bytes(model: Outline) -> tuple[int, int] | None:
    """Return what ``kept_bytes`` does; None for the few families that only run with their weights."""
    try:
        return kept_bytes(model.empty)
    except (RuntimeError, NotImplementedError):
        return None


def _timed(job: StreamJob, tried: Sequence[Record], planned: Sequence[Planned], progress: Progress) -> dict[str, Any]:
    """Do some records, and reckon from them the time of all that are not written."""
    began = time.perf_counter()
    pool = InProcess(job.start(progress))
    run = job.run(pool, progress)
    loaded = time.perf_counter()
    lines = run.lines(iter(tried), InvalidRecords(job.command, skip=True), none_written)
    done = sum(1 for _ in lines)
    took = time.perf_counter() - loaded
    missing = [plan for plan in planned if plan.missing]
    work = [plan.missing * (len(plan.prompt_ids) + len(plan.response_ids) or 1) for plan in missing]
    share = sum(work) / sum(work[: len(tried)])
    return {"loading": round(loaded - began, 1), "tried": done, "seconds": round(took, 1), "all": round(took * share)}


def _spread(lengths: Iterable[int]) -> dict[str, int]:
    found = sorted(lengths)
    if not found:
        return {"sum": 0}
    return {"min": found[0], "median": statistics.median_low(found), "max": found[-1], "sum": sum(found)}


def _in_words(told: dict[str, Any]) -> str:
    """Return what is told, for a terminal."""

    def spread(of: dict[str, int]) -> str:
        if "median" not in of:
            return f"at most {of['max']:,} each, {of['sum_at_most']:,} in all" if "max" in of else "none"
        return f"{of['min']:,} to {of['max']:,} each, median {of['median']:,}; {of['sum']:,} in all"

    def size(of: int | None) -> str:
        return "an unknown size" if of is None else f"{of / 1e9:.2f} GB"

    memory = dict(told["memory"])
    free = memory.pop("free")
    names = {"weights": "for the weights", "keys_and_values": "for keys and values"}
    rows = {
        "model": f"{told['model']} in {told['dtype']}, on {told['device']}",
        "records": f"{told['records']:,}; {told['written']:,} are written already, {told['invalid']:,} more are bad",
        "prompt tokens": spread(told["prompt_tokens"]),
        "response tokens": spread(told["response_tokens"]),
    }
    if "rows" in told:
        rows["at once"] = f"{told['rows']:,} responses"
    if "passes" in told:
        draws = told["passes"]["members"] - 1
        rows["passes"] = (
            f"{told['passes']['batches']:,} batches, each by the model{f' and {draws} draws' * (draws > 0)}"
        )
    rows["memory"] = ", ".join(f"{size(of)} {names[name]}" for name, of in memory.items()) + f"; {size(free)} are free"
    if "time" in told:
        took = told["time"]
        most = "at most " * ("rows" in told)  # many are generated faster than few
        rows["time"] = (
            f"{most}about {duration(took['all'])}: {took['tried']:,} records took {took['seconds']:g} s, after "
            f"{took['loading']:g} s of loading"
        )
    return "\n".join(f"{name:<17}{text}" for name, text in rows.items())
