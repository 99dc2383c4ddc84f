"""Ways out of bubblewrap, tried by root and by a user that has nothing else on this machine."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.answers.code.escapes import ESCAPES

FRESH_USER = 61_234
REPOSITORY = Path(__file__).parents[3]

bubblewrapped = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def attempts(user: str, how: str, *names: str) -> tuple[int, dict[str, str]]:
    """Try escapes in a virtual environment of the user's own; return the exit status and what became of each."""
    if os.geteuid() != 0 and user == "root":
        pytest.skip("only root can try what root may do")
    folder = subprocess.run(["mktemp", "-d", "/var/tmp/tokur-XXXXXX"], capture_output=True, text=True).stdout.strip()
    try:
        inner = f"{shlex.quote(_python())} -m venv --without-pip {folder}/venv && exec {folder}/venv/bin/python "
        inner += shlex.join(["-m", "tests.answers.code.escapes", how, *names])
        command = ["sh", "-c", inner]
        if user == "user" and os.geteuid() == 0:
            os.chown(folder, FRESH_USER, FRESH_USER)
            become = ["setpriv", f"--reuid={FRESH_USER}", f"--regid={FRESH_USER}", "--clear-groups", *command]
            command = ["unshare", "--mount", "sh", "-ec", f"{_show(f'{folder}/kept')} exec {shlex.join(become)}"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TMPDIR": folder, "HF_TOKEN": "hf"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, env=environment, timeout=300)
    finally:
        shutil.rmtree(folder)
    if done.returncode > 0:
        raise AssertionError(done.stderr)
    return done.returncode, dict(map(json.loads, done.stdout.splitlines()))


def _python() -> str:
    return os.path.realpath(sys._base_executable)


def _show(kept: str) -> str:
    """Commands for a mount namespace that show Python and the repository to users who may not enter root's home."""
    shown = [str(REPOSITORY), os.path.realpath(sys.base_prefix)]
    hidden = {
        str(above): None for path in shown for above in [*Path(path).parents][::-1] if not above.stat().st_mode & 1
    }
    covered = [folder for folder in hidden if not any(str(above) in hidden for above in Path(folder).parents)]
    inside = [path for path in shown if any(Path(path).is_relative_to(folder) for folder in covered)]
    lines = [f"mkdir {kept}", f"mount -t tmpfs none {kept}"]
    lines += [f"mkdir {kept}/{n}; mount --bind {shlex.quote(path)} {kept}/{n}" for n, path in enumerate(inside)]
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(folder)}" for folder in covered]
    for n, path in enumerate(inside):
        lines += [f"mkdir -p {shlex.quote(path)}; mount --bind {kept}/{n} {shlex.quote(path)}"]
    return "; ".join([*lines, f"cd {shlex.quote(str(REPOSITORY))}; "])


@pytest.mark.slow
@bubblewrapped
@pytest.mark.parametrize("user", ["root", "user"])
def test_bubblewrap_lets_no_code_out(user):
    outcomes = attempts(user, "isolated")[1]
    assert outcomes.keys() == ESCAPES.keys()
    assert [name for name, outcome in outcomes.items() if outcome == "escaped"] == []


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "user"])
def test_escapes_get_out_where_there_is_no_bubblewrap(user):
    assert attempts(user, "bare")[1] == dict.fromkeys(ESCAPES, "escaped")


@bubblewrapped
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a user whose processes may all be killed")
def test_killing_every_process_ends_those_of_the_response_alone():
    assert attempts("user", "bare", "kills_every_process")[0] == -9
    status, found = attempts("user", "isolated", "kills_every_process", "reads_a_file_of_the_user")
    assert status == 0
    assert "No such process" in found["kills_every_process"]
    assert found["reads_a_file_of_the_user"] != "escaped"
