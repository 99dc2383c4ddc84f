"""What every test runs under: no cache of the user's but for the real model, few threads."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):  # `pytest -n 2`: cores are shared
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
settings.register_profile("patient", deadline=None)  # a busy machine is no fault
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--may-skip", metavar="REGEX", help="fail if a test is skipped for any other reason")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, unless ``-m`` says which tests are meant or one is named (``file::test``)."""
    if config.option.markexpr or any("::" in argument for argument in config.invocation_params.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    allowed = session.config.option.may_skip
    if allowed is None or hasattr(session.config, "workerinput"):  # whoever started the workers looks at it
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for report in reporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        if not re.search(allowed, reason):
            reporter.write_line(f"{report.nodeid} must not be skipped: {reason}", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _own_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    for name in ("TOKUR_MODEL", "TOKUR_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if request.node.get_closest_marker("real_model") is None:
        monkeypatch.setenv("TOKUR_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_reaches_processes() -> None:
    """A job in the background of a shell ignores Ctrl-C, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _one_thread_for_tiny_models() -> None:
    """Threads cost more than they bring on 2-layer models."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def all_threads():
    """For the real model."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A tiny random Llama that the default strength suits, with its tokenizer, as a Hugging Face folder."""
    from tests.tiny import quiet_model, tiny_tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    for part in (quiet_model(), tiny_tokenizer()):
        part.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def roomy_folder(tmp_path_factory) -> Path:
    """A tiny model with room for a puzzle's or a program's prompt."""
    from tests.tiny import tiny_model_folder

    return tiny_model_folder(tmp_path_factory.mktemp("roomy"), max_position_embeddings=4096)


@pytest.fixture(scope="session")
def programs(tmp_path_factory, roomy_folder) -> Iterator[Path]:
    """A folder with ``tokur`` for shell scripts, see ``tests.warm``; it has the roomy model loaded."""
    from tests.warm import warm_tokur

    with warm_tokur(tmp_path_factory.mktemp("warm"), roomy_folder) as folder:
        yield folder


@pytest.fixture
def run_tokur(tmp_path, capfd, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns (exit code, standard output, standard error).

    Standard error lacks the line that says which model is being loaded.
    """
    import sys

    from tokur_cli.app import main

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["tokur", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, re.sub(r"^tokur \w+: loading .*\n", "", err, flags=re.MULTILINE)

    return run
