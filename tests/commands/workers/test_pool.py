"""Tasks through workers of real Ray, in this process's own pool; the pipelines are played."""

import itertools
import queue
import time

import pytest

from tests.commands.workers.fakes import Fake
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.cluster import divide
from tokur_cli.commands.workers.pool import _AHEAD, open_pool
from tokur_cli.records.errors import TokurError


def pool_of(workers, make, cluster=None):
    return open_pool(WorkerOptions(str(workers), cluster), "auto", make, Progress("score"))


def lost(task):
    return [f"lost {task}"]


def run(pool, tasks):
    return [(task, list(outcomes)) for task, outcomes in pool.map(tasks, lost)]


@pytest.mark.slow
def test_pool_answers_come_in_order_from_all_workers_and_a_killed_one_costs_nothing_else(capfd, monkeypatch):
    """At once, since starting Ray takes seconds: order, division, reading ahead, deaths, an input that breaks off."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pool_of(2, Fake(poison=7, seconds=0.01)) as pool:
        assert pool.settings == {"sigma": 0.1}
        done = run(pool, range(60))
        assert [task for task, _ in done] == list(range(60))
        assert done.pop(7) == (7, ["lost 7"])
        assert [outcomes[0][0] for _, outcomes in done] == [task for task, _ in done]
        dead = {outcomes[0][1] for _, outcomes in done[:7]}
        assert done[-1][1][0][1] not in dead, "whoever was there has died of 7"
        assert {outcomes[0][3] for _, outcomes in done} == {"1"}

        read = []
        answers = pool.map((read.append(n) or n for n in itertools.count(100)), lost)
        assert next(answers)[0] == 100
        time.sleep(0.5)
        assert len(read) <= 2 * _AHEAD + 1
        at_work = set()
        for _, outcomes in itertools.islice(answers, 5000):
            at_work.add(next(outcomes)[1])
            if len(at_work) == 2:
                break
        assert len(at_work) == 2, "one in each place"
        assert not at_work & dead

        lines = queue.SimpleQueue()
        waiting = pool.map(iter(lines.get, None), lost)
        lines.put(1)
        assert next(next(waiting)[1])[0] == 1  # though the input is open
        lines.put(None)
        assert list(waiting) == []

        def cut_short():
            yield from range(8, 20)
            raise TokurError("cut short")

        seen = []
        with pytest.raises(TokurError, match="cut short"):
            seen.extend(task for task, outcomes in pool.map(cut_short(), lost) for _ in outcomes)
        assert seen == [] or seen == list(range(8, 20))
        print("to standard output")
        pool.standard_output.write(b"a record\n")
    out, err = capfd.readouterr()
    assert out == "a record\n"
    lines = err.splitlines()
    assert lines.pop(0) == "tokur score: a note of every worker"
    assert len(lines) == 3
    assert all(line.endswith("died; another one takes its place and repeats its work") for line in lines)


@pytest.mark.slow
def test_pool_a_node_that_is_lost_costs_its_tasks_time_and_workers_without_a_place_are_said(capfd, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    try:
        with pool_of(2, Fake(seconds=0.05), cluster=cluster.address) as pool:
            for number, (task, outcomes) in enumerate(pool.map(range(400), lost)):
                assert (task, next(outcomes)[0]) == (number, number)
                if number == 50:
                    cluster.remove_node(node, allow_graceful=False)
            assert number == 399
        capfd.readouterr()
        with pool_of(2, Fake(), cluster=cluster.address) as pool:
            assert [task for task, _ in run(pool, range(10))] == list(range(10))
            said, patience = "", time.monotonic() + 60  # on a busy machine Ray is slow to tell
            while "wait for a place" not in said and time.monotonic() < patience:
                time.sleep(0.5)
                said += capfd.readouterr().err
        assert said.splitlines()[-1] == (
            "tokur score: 1 of 2 workers wait for a place with 1 free CPU: the cluster has 1 CPUs, 0 of them free, "
            "and 0 GPUs, 0 free"
        )
    finally:
        cluster.shutdown()


def machine(cores, gpus):
    return {"CPU": cores, "GPU": gpus}


@pytest.mark.parametrize(
    ("machines", "options", "share"),
    [
        ([machine(8, 0)], WorkerOptions("4"), (4, 2, 0)),
        ([machine(8, 0)], WorkerOptions("3"), (3, 2, 0)),
        ([machine(2, 0)], WorkerOptions("4"), (4, 1, 0)),
        ([machine(8, 0)], WorkerOptions("auto"), (1, 8, 0)),
        ([machine(64, 8)], WorkerOptions("auto"), (8, 8, 1)),
        ([machine(64, 8)], WorkerOptions("auto", gpus_per_worker=4), (2, 32, 4)),
        ([machine(64, 8), machine(32, 8)], WorkerOptions(cluster="a"), (16, 4, 1)),
        ([machine(64, 3), machine(64, 3)], WorkerOptions(cluster="a", gpus_per_worker=2), (2, 64, 2)),
        ([machine(8, 0), machine(4, 0)], WorkerOptions("3", cluster="a"), (3, 2, 0)),
        ([machine(8, 0), machine(4, 0)], WorkerOptions(cluster="a"), (2, 4, 0)),
    ],
)
def test_pool_machines_are_divided_so_that_all_workers_have_a_place(machines, options, share, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert tuple(divide(machines, options, "auto")) == share
    assert divide(machines, options, "cpu").gpus == 0
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert divide(machines, options, "auto").cpus == 3
