"""How busy one driver keeps workers that sleep in place of computing: ``python -m tests.bench.cluster``.

The driver is the real one: it reads records, cuts windows, hands them to workers of real Ray and writes what comes
back, in order, to a file. A worker sleeps for about ``--seconds`` a window and answers with lines as long as scored
ones (``--length``). Each is a process, up to ``--processes`` of them; beyond, several share one and
sleep in its threads. Busy is the share of the workers' time that they sleep, from when all have begun until the input
ends. The last row's workers don't sleep. How many the driver can feed is told from its processor's time in that row,
since a driver is one Python process, and here it shares the processors with its workers.
"""

import argparse
import itertools
import json
import os
import random
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tokur_cli.commands.options.scoring import ScoringOptions
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.score import windows
from tokur_cli.commands.score.windows import ScoredLine, score_records
from tokur_cli.commands.session.job import none_written
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.cluster import running_ray
from tokur_cli.commands.workers.pool import Pool
from tokur_cli.commands.workers.worker import Worker
from tokur_cli.records.reader import read_records
from tokur_cli.records.writer import open_output

SAMPLES = Path(__file__).parents[2] / "samples" / "responses.jsonl"
BYTES = SAMPLES.stat().st_size / SAMPLES.read_bytes().count(b"\n")  # a record


class Sleeping:
    """A pipeline that sleeps, and answers with long enough lines; the first tells when it began and ended."""

    def __init__(self, seconds, length):
        self.seconds, self.length = seconds, length
        self.settings = {}

    def answer(self, task):
        began = time.time()
        time.sleep(self.seconds * random.uniform(0.8, 1.2))
        slept = began, time.time(), f"{os.getpid()}-{threading.get_ident()}"
        for place in range(len(task.window)):
            mark, slept = json.dumps(slept).encode(), None
            yield place, ScoredLine(mark.ljust(self.length), 1, anew=False, doubt=None)


def make_sleeping(seconds, length, progress):
    return Sleeping(seconds, length)


class Crowds(Pool):
    """A pool whose workers are threads of a few processes.

    Args:
        processes: how many.
        given: a pool's own arguments.
    """

    def __init__(self, processes, *given):
        import ray

        share = given[1]
        threads = -(-share.workers // processes)
        make = partial(ray.remote(Worker).options(num_cpus=0, max_concurrency=threads).remote)
        self._crowds = itertools.cycle([make() for _ in range(processes)])
        super().__init__(*given)

    def _hire(self, place):
        return next(self._crowds)


@contextmanager
def pool_of(workers, processes, make):
    with running_ray(WorkerOptions(str(workers)), "cpu") as (share, records):
        given = "score", share, make, records
        pool = Crowds(processes, *given) if processes < workers else Pool(*given)
        try:
            yield pool
        finally:
            pool.close()


class Counting:
    """Lines to a writer, counted, with the sleeps that they tell."""

    def __init__(self, write):
        self.write = write
        self.records = self.bytes = 0
        self.sleeps = defaultdict(list)

    def __call__(self, line):
        self.write(line)
        self.records += 1
        self.bytes += len(line) + 1
        if (slept := json.loads(line)) is not None:
            began, ended, worker = slept
            self.sleeps[worker].append((began, ended))


def measure(workers, processes, seconds, options, folder):
    """Return a row: a run that lasts ``options.last`` seconds from when all workers have begun."""
    make = partial(make_sleeping, seconds, options.length)
    windows.window_sizes = lambda *_: itertools.repeat(options.records)
    with pool_of(workers, processes, make) as pool, open_output(str(folder / f"{workers}.jsonl"), force=True) as writer:
        written = Counting(writer.write_line)
        marks = []  # (clock, processor's seconds, bytes read)

        def items():
            read = 0.0
            for record in itertools.chain.from_iterable(read_records(str(SAMPLES)) for _ in itertools.count()):
                read += BYTES
                if not marks and len(written.sleeps) == workers:
                    marks.append((time.time(), time.process_time(), read, written.records, written.bytes))
                if marks and time.time() > marks[0][0] + options.last:
                    break
                yield record
            marks.append((time.time(), time.process_time(), read, written.records, written.bytes))

        invalid, progress = InvalidRecords("score", skip=False), Progress("score")
        for line in score_records(
            items(), invalid, none_written, pool=pool, options=ScoringOptions(), progress=progress
        ):
            written(line)
        writer.finish()
    (start, *before), (end, *after) = marks
    wall = end - start
    processor, read, records, size = ((b - a) / wall for a, b in zip(before, after, strict=True))
    slept = sum(max(0.0, min(b, end) - max(a, start)) for sleeps in written.sleeps.values() for a, b in sleeps)
    return {
        "workers": workers,
        "processes": min(workers, processes),
        "window s": seconds,
        "busy %": 100 * slept / (workers * wall),
        "records/s": records,
        "MB/s read": read / 1e6,
        "MB/s written": size / 1e6,
        "driver's processor %": 100 * processor,
        "records a window": options.records,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="8,64,256", help="numbers of sleeping workers")
    parser.add_argument("--processes", type=int, default=64, help="at most as many processes")
    parser.add_argument("--seconds", type=float, default=1.0, help="a window's, give or take a fifth")
    parser.add_argument("--records", type=int, default=16, help="in a window")
    parser.add_argument("--length", type=int, default=8000, help="of a scored line, in bytes")
    parser.add_argument("--last", type=float, default=20.0, help="seconds that each row is measured for")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    runs = [(int(number), options.processes, options.seconds) for number in options.workers.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for workers, processes, seconds in [*runs, (4, 1, 0.0)]:
            rows.append(measure(workers, processes, seconds, options, Path(folder)))
            print("  ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()), flush=True)
    most = rows[-1]["records/s"] / (rows[-1]["driver's processor %"] / 100)
    print(
        f"{most:.0f} records a second of the driver's processor: that feeds {most / options.records:.0f} workers that "
        f"take 1 s for a window of {options.records} records"
    )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
