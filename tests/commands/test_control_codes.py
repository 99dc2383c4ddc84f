"""No control code of a record, a name or an option reaches the terminal: not in tables, messages, CSV or LaTeX."""

import unicodedata

import pytest

from tests.helpers import write_lines

EVIL = "\x1b]52;c;aGk=\x07\x9b31m\u202e\r\x7fX"


def is_harmless(text):
    return not [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


def scored(number, **more):
    labels = {"id": f"q{number}", "question": "?", "response": "4", "correct": number % 2 == 0}
    return {**labels, "tokur": {"scores": {"eu": number / 10}}, **more}


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
