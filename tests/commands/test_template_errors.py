"""What a template does wrong is an error of its record: those before it are written, those after it too where asked."""

from datetime import datetime

import pytest

from tests.helpers import parsed, write_lines
from tests.tiny import tiny_model_folder
from tokur_cli.engine.text import chat

QUESTIONS = [{"id": str(n), "question": f"{n}+1?", "level": "3" if n == 2 else n, "response": "4"} for n in range(4)]
FAILING = {
    "{{ question }} {{ level + 1 }}": "TypeError: can only concatenate str",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ question }}{% if level == '3' %}{{ f() }}{% endif %}": "RecursionError",
}


def ids(out):
    return [record["id"] for record in parsed(out)]


@pytest.mark.parametrize("template", FAILING)
@pytest.mark.parametrize("command", ["score", "generate"])
def test_template_a_template_that_fails_is_an_error_of_its_record(run_tokur, tiny_folder, tmp_path, command, template):
    (tmp_path / "t.jinja").write_text(template)
    given = write_lines(tmp_path / "q.jsonl", QUESTIONS)
    options = ["-m", tiny_folder, "--template", tmp_path / "t.jinja"]
    options += ["--max-new-tokens", 4] if command == "generate" else []
    code, out, err = run_tokur(command, given, *options)
    assert (code, ids(out)) == (1, ["0", "1"])
    assert f"tokur {command}: {given}:3: the template cannot be filled: " in err
    assert FAILING[template] in err
    code, out, err = run_tokur(command, given, *options, "--skip-invalid")
    assert (code, ids(out)) == (3, ["0", "1", "3"])
    assert f"tokur {command}: {given}:3: the template cannot be filled: " in err


def test_template_date_is_one_for_score_and_generate_and_resume_compares_it(tmp_path, monkeypatch, run_tokur):
    folder = tiny_model_folder(tmp_path)
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}\n" + template)
    given = write_lines(tmp_path / "q.jsonl", QUESTIONS[:1])
    texts = []
    for command, options in (("score", []), ("generate", ["--max-new-tokens", 2])):
        arguments = [command, given, "-m", folder, "-o", tmp_path / f"{command}.jsonl", *options]
        assert run_tokur(*arguments)[0] == 0
        record = parsed((tmp_path / f"{command}.jsonl").read_text())[0]
        texts.append(record)
        monkeypatch.setattr(chat, "DATE", datetime(2024, 7, 27))
        code, _, err = run_tokur(*arguments, "--resume")
        assert (code, "date" in err) == (1, True), err
        monkeypatch.undo()
    assert texts[0]["tokur"]["run"]["prompts"]["date"] == "2024-07-26"
