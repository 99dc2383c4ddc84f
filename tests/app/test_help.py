"""Help in two lengths: what ``-h`` leaves out, ``--help`` has, and the examples of both work."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from typer.main import get_command

from tests.helpers import write_lines
from tests.readmes import ROOT
from tokur_cli.app import app

COMMANDS = get_command(app).commands
SCORED = ROOT / "tests" / "data" / "scored.jsonl"


@pytest.fixture
def help_of(run_tokur, monkeypatch):
    def ask(*arguments, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = run_tokur(*arguments)
        assert (code, err) == (0 if arguments else 2, "")
        return out

    return ask


def plain(text):
    return " ".join(text.split())


def options_of(name):
    return [parameter for parameter in COMMANDS[name].params if parameter.param_type_name == "option"]


def examples_in(text):
    """The command lines between the heading and the next empty line, whole again where they were wrapped."""
    block = re.search(r"^Examples?:\n(.*?)\n\n", text, flags=re.MULTILINE | re.DOTALL)[1]
    return re.sub(r" \\\n\s+", " ", block).replace("  ", "").split("\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_fits_a_screen_and_leads_to_the_whole(help_of, name):
    text = help_of(name, "-h")
    lines = text.splitlines()
    assert 24 <= len(lines) <= 45
    assert max(map(len, lines)) <= 80
    assert not re.findall(r"\w…", text)
    assert all(text.count(left) == text.count(right) for left, right in ("()", "[]"))
    shown = [line for line in lines if re.match(r"  (-\w, )?--\w", line)]
    assert 10 <= len(shown) <= 15
    assert len(examples_in(text)) == 2
    assert all(f"tokur {name} " in example for example in examples_in(text))
    assert lines[-1] == f"tokur {name} --help explains all {len(options_of(name))} options."


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("columns", [60, 80, 300])
def test_the_whole_help_has_every_option_whole_after_the_examples(help_of, name, columns):
    text = help_of(name, "--help", columns=columns)
    assert max(map(len, text.splitlines())) <= min(columns, 100)
    assert text.index("\nExamples:\n") < text.index("\n  -")
    assert examples_in(text) == examples_in(help_of(name, "-h"))
    for parameter in COMMANDS[name].params:
        assert plain(parameter.help) in plain(text)
    parts = re.split(r"\n\n|\{\w+\}", COMMANDS[name].help)  # what stands for a name in braces is not written here
    assert all(plain(part.strip()) in plain(text) for part in parts)
    flags = {flag for command in COMMANDS for parameter in options_of(command) for flag in parameter.opts}
    named = set(re.findall(r"(?<![\w-])--[\w-]+", text))
    assert named <= flags | {"--help", "--set"}, "none is broken at a hyphen"


def test_tokur_alone_says_what_it_is_and_where_to_go_on(help_of):
    text = help_of("-h")
    assert len(text.splitlines()) <= 24
    for name, command in COMMANDS.items():
        (line,) = re.findall(rf"^  {name} .*", text, flags=re.MULTILINE)
        assert line.endswith((".", "?"))
        assert line.split(maxsplit=1)[1] in command.help
        assert command.help.split("\n\n")[0] in plain(help_of("--help"))
    assert "tokur COMMAND -h" in text
    assert "tokur COMMAND --help" in text
    assert help_of() == text


@pytest.mark.parametrize("name", ["select", "evaluate", "heatmap"])
def test_the_examples_without_a_model_work(run_tokur, tmp_path, monkeypatch, name):
    shutil.copy(SCORED, tmp_path / "scored.jsonl")
    monkeypatch.chdir(tmp_path)
    for example in COMMANDS[name].brief.examples:
        code, out, err = run_tokur(*shlex.split(re.sub(r"> \S+$", "", example))[1:])
        assert code == 0, err
        assert out or (tmp_path / "page.html").stat().st_size


@pytest.mark.slow
def test_all_examples_work_one_after_the_other(tmp_path, programs, roomy_folder):
    """On the repository's samples, cut short and told to be of a model that takes no time."""
    import json

    (tmp_path / "samples").mkdir()
    for name in ("questions", "responses"):
        rows = [json.loads(line) for line in (ROOT / "samples" / f"{name}.jsonl").read_text().splitlines()[:9]]
        for row in rows:
            row.pop("tokur", None)
        write_lines(tmp_path / "samples" / f"{name}.jsonl", rows)
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TOKUR_MODEL": str(roomy_folder),
        "OMP_NUM_THREADS": "1",
    }
    for name in ("perturb", "generate", "score", "select", "evaluate", "heatmap"):
        for example in COMMANDS[name].brief.examples:
            shell = ["bash", "-o", "pipefail", "-c"]
            script = example.replace("tokur generate", "tokur generate --max-new-tokens 9")
            done = subprocess.run([*shell, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, example + done.stderr


@pytest.mark.skipif(os.name != "posix", reason="terminals are POSIX")
@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_a_terminal_has_colour_unless_it_is_unwanted(environ, coloured):
    import pty

    terminal, child = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environ}
    with subprocess.Popen(
        [sys.executable, "-m", "tokur_cli", "-h"], stdout=child, stderr=child, env=environ
    ) as process:
        os.close(child)
        shown = b""
        while not shown.endswith(b"all of them.\r\n"):
            shown += os.read(terminal, 4096)
    os.close(terminal)
    assert process.returncode == 0
    assert (b"\x1b[" in shown) == coloured
    assert b"\x1b" not in re.sub(rb"\x1b\[\d*m", b"", shown)
