"""What a library prints is kept, and shown where it fails."""

import os
import subprocess
import sys

BEGINNING = """
import os, subprocess, sys
from tokur_cli.engine.output import silencer

def chatter():
    print("from Python")
    print("a warning", file=sys.stderr)
    os.write(1, b"native code\\n")
    os.write(2, b"native error\\n")
    subprocess.run([sys.executable, "-c", "print('a process')"], check=True)

silenced = silencer("vLLM", lambda text: print(text, file=sys.stderr, flush=True))
"""
LINES = ["from Python", "a warning", "native code", "native error", "a process"]


def run(program, **environment):
    """(standard output, standard error) of a process, whose streams are its descriptors, as pytest's are not."""
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + program], env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.stdout, done.stderr


def test_nothing_is_seen_of_what_works_and_the_rest_stays_as_it_was():
    program = (
        "for n in range(2):\n  print('before', n)\n  with silenced(): chatter()\n  print('after', n, file=sys.stderr)"
    )
    assert run(program) == ("before 0\nbefore 1\n", "after 0\nafter 1\n")


def test_what_is_printed_while_the_process_ends_is_kept_too():
    program = "import atexit\nwith silenced(): atexit.register(chatter)\nprint('the last')"
    assert run(program) == ("the last\n", "")


def test_everything_is_shown_on_standard_error_where_it_fails():
    out, err = run("with silenced(): chatter()\nwith silenced(): print('the last'); 1 / 0")
    assert out == ""
    shown, _, trace = err.partition("\n---\n")
    assert shown.startswith("--- what vLLM printed ---\n")
    assert sorted(shown.splitlines()[1:]) == sorted([*LINES, "the last"])
    assert "ZeroDivisionError" in trace


def test_an_interrupt_shows_nothing():
    program = "try:\n  with silenced(): chatter(); raise KeyboardInterrupt\nexcept KeyboardInterrupt: pass"
    assert run(program) == ("", "")


def test_with_debugging_it_is_all_on_standard_error():
    out, err = run("with silenced(): chatter()", TOKUR_DEBUG="1")
    assert out == ""
    assert sorted(err.splitlines()) == sorted(LINES)


def test_a_process_that_lives_on_stays_silent():
    program = """
with silenced():
    child = subprocess.Popen([sys.executable, "-c", "input(); print('late')"], stdin=subprocess.PIPE)
child.communicate(b"\\n")
with silenced(): 1 / 0
"""
    out, err = run(program)
    assert out == ""
    assert err.startswith("--- what vLLM printed ---\nlate\n---\n")
