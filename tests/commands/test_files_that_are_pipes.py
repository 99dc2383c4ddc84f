"""Files that can be read once, as a shell makes them: ``--template <(…)``."""

import os

import pytest

from tests.commands.score.test_score import parsed, write_lines

FILES = {
    "--template": "Q: {{ question }}\nA:",
    "--few-shot": '{"question": "What is 1 + 1?", "response": "It is 2."}\n',
}


@pytest.mark.parametrize("command", [["score"], ["generate", "--score", "--max-new-tokens", "4"]])
@pytest.mark.parametrize("option", FILES)
def test_a_template_and_examples_may_come_from_a_pipe(command, option, run_tokur, tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", [{"id": "a", "question": "What is 2 + 2?", "response": "It is 4."}])
    (tmp_path / "file").write_text(FILES[option])
    reading, writing = os.pipe()
    os.write(writing, FILES[option].encode())
    os.close(writing)
    found = []
    for name in (tmp_path / "file", f"/dev/fd/{reading}"):
        code, out, err = run_tokur(*command, given, "-m", tiny_folder, option, name)
        assert (code, err) == (0, "")
        found += [(record["response"], record["tokur"]["scores"]) for record in parsed(out)]
    os.close(reading)
    assert found[0] == found[1]
    _, out, _ = run_tokur(*command, given, "-m", tiny_folder)
    assert parsed(out)[0]["tokur"]["scores"] != found[0][1]
