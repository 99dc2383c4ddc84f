"""No control code of a record, a name or an option reaches the terminal: not in tables, messages, CSV or LaTeX."""

import io
import json
import re
import unicodedata

import pytest
from rich.console import Console

from tests.helpers import write_lines
from tokur_cli.views.tables import Cell, Column, Row, Table, latex, print_table
from tokur_cli.views.visible import indented

EVIL = "\x1b]52;c;aGk=\x07\x9b31m\u202e\r\x7fX"
SHOWN = "⟨U+001B⟩]52;c;aGk=⟨U+0007⟩⟨U+009B⟩31m⟨U+202E⟩⟨U+000D⟩⟨U+007F⟩X"


def is_harmless(text):
    return not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


def scored(number, **more):
    labels = {"id": f"q{number}", "question": "?", "response": "4", "correct": number % 2 == 0}
    return {**labels, "tokur": {"scores": {"eu": number / 10}}, **more}


@pytest.fixture
def groups(tmp_path):
    return write_lines(tmp_path / "in.jsonl", [scored(n, level=[EVIL, "=1+1", "-0.3"][n % 3]) for n in range(18)])


RECORDS = {
    "an id": (["select", "--by", "eu"], [{**scored(1), "id": EVIL, "tokur": {}}]),
    "a score's name": (["evaluate"], [scored(n, tokur={"scores": {"eu": n, f"a{EVIL}": 1}}) for n in range(4)]),
    "a seed": (
        ["evaluate"],
        [scored(n, tokur={"scores": {"eu": n}, "run": {"seed": f"{n % 2}{EVIL}"}}) for n in range(4)],
    ),
    "an Inspect error": (
        ["evaluate"],
        [{"id": 1, "epoch": 1, "input": "?", "target": "4", "output": {}, "error": {"message": EVIL}}],
    ),
    "a batch's error": (["evaluate"], [{"id": "b", "custom_id": EVIL, "response": None, "error": {"message": EVIL}}]),
    "a model's name": (["score"], [{"question": "?", "response": "4", "tokur": {"model": f"./no{EVIL}"}}]),
    "a part's type": (["select"], [{"messages": [{"role": "user", "content": [{"type": EVIL}]}], "response": "4"}]),
}


@pytest.mark.parametrize("what", RECORDS)
def test_messages_show_what_a_record_holds_without_its_control_codes(run_tokur, tmp_path, what):
    (command, *options), rows = RECORDS[what]
    _, _, err = run_tokur(command, write_lines(tmp_path / "in.jsonl", rows), *options)
    assert is_harmless(err)
    assert "⟨U+001B⟩]52;c;aGk=" in err or r"\x1b]52" in err, err


@pytest.mark.parametrize(
    "arguments",
    [
        ("select", f"no{EVIL}.jsonl"),
        ("evaluate", f"--scores={EVIL}"),
        ("score", f"--template={EVIL}"),
        ("select", "one", f"two{EVIL}"),
        (f"sel{EVIL}",),
        ("select", f"--no-such{EVIL}"),
        ("select", f"--method={EVIL}"),
        ("heatmap", f"--limit={EVIL}"),
        ("select", f"--set=max_line={EVIL}"),
    ],
    ids=lambda arguments: arguments[0].partition("\x1b")[0] + "".join(arguments[1:]).partition("\x1b")[0],
)
def test_messages_show_what_was_typed_without_its_control_codes(run_tokur, tmp_path, arguments):
    code, out, err = run_tokur(*arguments)
    assert (code in (1, 2), out) == (True, "")
    assert is_harmless(err)


def test_a_line_break_in_a_name_begins_no_message(run_tokur, tmp_path):
    _, _, err = run_tokur("select", "no\ntokur select: all is well")
    assert err.splitlines() == ["tokur select: no", "  tokur select: all is well: there is no such file"]
    assert len(indented("x" * 10**7)) < 30_000


def test_the_table_on_a_terminal_shows_groups_without_their_control_codes(run_tokur, groups, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _ = run_tokur("evaluate", groups, "--group-by", "level", "--bootstrap", 0)
    assert code == 0
    assert SHOWN in out
    assert is_harmless(re.sub(r"\x1b\[[0-9;]*m", "", out))  # but for the table's own styles


def test_json_stays_exact(run_tokur, groups):
    code, out, _ = run_tokur("evaluate", groups, "--group-by", "level", "--bootstrap", 0, "--as", "jsonl")
    assert code == 0
    assert EVIL in {json.loads(line).get("group") for line in out.splitlines()}


HOSTILE = "\\input{/etc/passwd}%\n\\write18{x}&$#_{}~^*[1pt]" + EVIL


def test_latex_holds_no_command_and_no_line_of_a_name():
    table = Table(
        HOSTILE, HOSTILE, [Column(HOSTILE)], [Row(HOSTILE, [Cell(HOSTILE)]), Row("b", [Cell("50.00")])], [HOSTILE]
    )
    text = latex(table)
    assert is_harmless(text)
    assert len(text.splitlines()) == 10
    escaped = (
        r"\textbackslash{}input\{/etc/passwd\}\%↵\textbackslash{}write18\{x\}\&\$\#\_\{\}"
        r"\textasciitilde{}\textasciicircum{}$^*${[}1pt]"
    )
    lines = text.splitlines()
    assert lines[3].startswith(escaped)
    assert lines[5] == rf"{escaped}{SHOWN} & {escaped}{SHOWN} \\"
    assert all(line.startswith("% ") for line in (lines[0], lines[-1]))


def test_tables_show_no_control_code_wherever_it_stands():
    table = Table(EVIL, EVIL, [Column(EVIL)], [Row(EVIL, [Cell(EVIL)])], [EVIL])
    out = io.StringIO()
    print_table(table, Console(file=out, width=400, highlight=False, markup=False, emoji=False))
    assert is_harmless(out.getvalue())
    assert out.getvalue().count(SHOWN) == 6
