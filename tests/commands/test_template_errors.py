"""What a template does wrong is an error of its record: those before it are written, those after it too where asked."""

import pytest

from tests.helpers import parsed, write_lines

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
