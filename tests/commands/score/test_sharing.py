"""How rank 0 hands out windows and writes results, with the other processes and the scoring played by threads."""

import itertools
import os
import queue
import socket
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe

import pytest

from tokur_cli.commands.score import sharing
from tokur_cli.commands.score.pipeline import ScoredRecord, window_sizes, windows
from tokur_cli.commands.score.sharing import Team
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress
from tokur_cli.engine.processes import Process
from tokur_cli.engine.rendezvous import Peer
from tokur_cli.records.errors import TokurError
from tokur_cli.records.record import Record

SETTINGS = {"sigma": 0.1}
WINDOWS_AHEAD = 2 * 3  # for three processes
WINDOWS = [16, 32, 64, 128, *[256] * 20]


class Scoring:
    """Puts out each record as it is, when it is allowed to."""

    settings = SETTINGS

    def __init__(self, allowed=None):
        self.allowed = allowed
        self.scored = 0
        self.progress = Progress("score")

    def windows(self, items):
        return windows(items, window_sizes(256))

    def choose(self, window, already_written):
        return [True] * len(window)

    def score_window(self, window, wanted, skip_invalid):
        self.scored += 1
        for record in window:
            if self.allowed is not None:
                self.allowed.acquire()
            yield ScoredRecord(record, 1, anew=False)

    def written(self, tokens, anew):
        self.progress.advance(1, tokens)

    def finish(self):
        pass


def play_process(connection, scoring, ready=None):
    with suppress(EOFError, OSError):  # the end of the test
        connection.recv()
        connection.send(sharing._Ready(ready or SETTINGS))
        while True:
            for answer in sharing._score_task(scoring, connection.recv()):
                connection.send(answer)


@pytest.fixture
def team(monkeypatch):
    """Return a function that makes rank 0 of three processes, of which two are played."""
    ours = []

    def make(scorings, **options):
        peers = []
        for rank, scoring in enumerate(scorings, start=1):
            here, there = Pipe()
            ours.append((here, there))
            peers.append(Peer(rank, "elsewhere", here))
            threading.Thread(target=play_process, args=(there, scoring), kwargs=options, daemon=True).start()
        monkeypatch.setattr(sharing, "gather_peers", lambda process: peers)
        team = Team("score", Process(0, 1 + len(peers), 0, 1))
        return team.__enter__()  # not left: that would end this process

    yield make
    # Not closed under threads that still read: connections of the next test would get the numbers they read from
    for connection in itertools.chain(*ours):
        with socket.socket(fileno=os.dup(connection.fileno())) as ending:
            ending.shutdown(socket.SHUT_RDWR)


def numbered(count, read=None):
    for number in range(count):
        if read is not None:
            read.append(number)
        yield Record.parse(b'{"n":%d}' % number, None, None)


def run(team, scoring, items, written):
    team.begin(lambda named, note: scoring, None)
    team.run(scoring, items, written.append, InvalidRecords("score", skip=False), lambda record: False)


def test_results_are_written_in_order_as_soon_as_those_before_are_there_and_little_is_read_ahead(team):
    allowed, read, written = threading.Semaphore(0), [], []
    own, others = Scoring(allowed), [Scoring(), Scoring()]
    thread = threading.Thread(target=run, args=(team(others), own, numbered(sum(WINDOWS), read), written), daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    limit = sum(WINDOWS[: WINDOWS_AHEAD + 1])  # one more is read before there is room for it
    while len(read) < limit and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(read) == limit
    assert len(written) <= 16 + 32  # rank 0 took one of the first windows, and is stuck in it
    stuck = len(written)
    allowed.release()
    while len(written) == stuck and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(written) == stuck + 1
    for _ in range(sum(WINDOWS)):
        allowed.release()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert written == [b'{"n":%d}' % number for number in range(sum(WINDOWS))]
    assert all(scoring.scored for scoring in (own, *others))


def test_what_can_be_written_does_not_wait_for_more_input(team):
    lines = queue.SimpleQueue()
    written = []
    items = itertools.chain(numbered(16), iter(lines.get, None))
    arguments = (team([Scoring(), Scoring()]), Scoring(), items, written)
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while len(written) < 16 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(written) == 16
    lines.put(None)
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_an_unreadable_input_ends_the_run_after_what_was_read(team):
    def failing():
        yield from numbered(100)
        raise TokurError("cut short")

    written = []
    with pytest.raises(TokurError, match="cut short"):
        run(team([Scoring(), Scoring()]), Scoring(), failing(), written)
    assert written == [b'{"n":%d}' % number for number in range(100)]


def test_processes_with_other_settings_are_refused(team):
    allowed = threading.Semaphore(0)
    others = [Scoring(allowed), Scoring(allowed)]
    with pytest.raises(TokurError, match=r"process [12] on elsewhere has sigma 0\.3, but process 0 has 0\.1"):
        run(team(others, ready={"sigma": 0.3}), Scoring(allowed), numbered(10), [])
