"""What a newcomer types wrong, or has in another form, is answered with what to do."""

import json
import re

from tests.helpers import parsed, write_lines

RESPONSE = {"id": "1", "question": "6 times 7?", "response": "42", "reference": "42"}


def test_commands_a_question_is_asked_without_a_file(run_tokur, tiny_folder, tmp_path):
    options = ("-m", tiny_folder, "--max-new-tokens", 4, "--score", "--sigma", "0.1")
    code, out, err = run_tokur("generate", "--question", "What is 7 × 8?", *options)
    assert (code, err) == (0, "")
    path = write_lines(tmp_path / "in.jsonl", [{"question": "What is 7 × 8?"}])
    assert parsed(out) == parsed(run_tokur("generate", path, *options)[1])
    assert run_tokur("heatmap", write_lines(tmp_path / "scored.jsonl", [json.loads(out)]))[0] == 0
    assert (
        run_tokur("generate", "--question", "What is 7 × 8?", *options, "-n", 2, "--temperature", 1)[1].count("\n") == 2
    )


def test_commands_a_log_is_told_each_minute_how_far_a_run_is(run_tokur, tiny_folder, tmp_path, monkeypatch):
    path = write_lines(tmp_path / "in.jsonl", [RESPONSE] * 300)
    command = ("score", path, "-m", tiny_folder, "--scores", "ll")
    assert run_tokur(*command)[2] == "", "not within the first"
    monkeypatch.setattr("tokur_cli.commands.shared.progress._LINE_SECONDS", 0.01)
    code, out, err = run_tokur(*command)
    assert (code, out.count("\n")) == (0, 300)
    lines = [
        re.fullmatch(r"tokur score: (\d+) of 300 records, ([\d,]+ tokens/s, )?.* so far(, about .* left)?", line)
        for line in err.splitlines()
        if "records" in line
    ]
    assert len(lines) > 1
    assert all(lines)
    done = [int(line[1]) for line in lines]
    assert done == sorted(done)
    assert all(line[3] for line in lines if line[1] != "0"), "what is left is known once something is done"
