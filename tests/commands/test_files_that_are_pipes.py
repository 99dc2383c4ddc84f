"""Files that can be read once, as a shell makes them: ``--template <(…)``."""

import os

import pytest

from tests.commands.score.test_score import parsed, write_lines


@pytest.mark.parametrize("command", ["score", "evaluate", "select"])
def test_on_a_terminal_a_pipe_is_read_whole(command, run_tokur, tmp_path, monkeypatch):
    """Its lines, which would tell how far the work has got, can only be counted by taking them."""
    logprobs = {"content": [{"token": "7", "logprob": -0.5, "top_logprobs": []}]}
    rows = [
        {"id": f"q{n}", "question": "?", "response": "7", "correct": n % 2 == 0, "tokur": {"scores": {"eu": n / 9}}}
        for n in range(9)
    ]
    if command == "score":
        rows = [{**{name: row[name] for name in ("id", "question", "response")}, "logprobs": logprobs} for row in rows]
    options = {"score": ["--from-logprobs"], "evaluate": ["--bootstrap", "0"], "select": ["--by", "eu"]}[command]
    data = write_lines(tmp_path / "in.jsonl", rows).read_bytes()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    code, out, err = run_tokur(command, f"/dev/fd/{reading}", *options)
    os.close(reading)
    assert code == 0, err
    if command == "evaluate":
        assert parsed(out)[0]["records"] == 9
    else:
        assert [record["id"] for record in parsed(out)] == [f"q{n}" for n in range(9)]


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
