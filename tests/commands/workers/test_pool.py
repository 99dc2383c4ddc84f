"""Tasks through workers of real Ray, in this process's own pool; the pipelines are played."""

import time
from itertools import chain

import pytest

from tests.commands.workers.fakes import Fake
from tokur_cli.commands.options.workers import WorkerOptions
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.commands.workers.cluster import divide
from tokur_cli.commands.workers.pool import open_pool


def pool_of(workers, make, cluster=None):
    return open_pool(WorkerOptions(str(workers), cluster), "auto", make, Progress("score"))


def lost(task):
    return [f"lost {task}"]


@pytest.mark.slow
def test_pool_gives_up_a_task_that_kills_three_workers_and_answers_the_others_in_order(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with pool_of(2, Fake(poison=7)) as pool:
        assert list(chain.from_iterable(pool.map(range(20), lost))) == ["lost 7" if n == 7 else n for n in range(20)]


@pytest.mark.slow
def test_pool_a_node_that_is_lost_costs_its_tasks_time_and_workers_without_a_place_are_said(capfd, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    try:
        with pool_of(2, Fake(seconds=0.02), cluster=cluster.address) as pool:
            for number, outcomes in enumerate(pool.map(range(200), lost)):
                assert outcomes == [number]
                if number == 50:
                    cluster.remove_node(node, allow_graceful=False)
            assert number == 199
        capfd.readouterr()
        with pool_of(2, Fake(), cluster=cluster.address) as pool:
            assert list(chain.from_iterable(pool.map(range(10), lost))) == list(range(10))
            said, patience = "", time.monotonic() + 60  # on a busy machine Ray is slow to tell
            while "wait for a place" not in said and time.monotonic() < patience:
                time.sleep(0.5)
                said += capfd.readouterr().err
        assert said.splitlines()[-1] == "tokur score: 1 of 2 workers wait for a place with 1 CPUs and 0 GPUs"
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
