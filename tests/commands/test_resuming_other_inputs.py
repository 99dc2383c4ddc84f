"""A file is continued only with the input that it was made of, and nothing is ever written out of order."""

import pytest

from tests.helpers import parsed, records, write_lines


def score_of(tiny_folder):
    return ["score", "-m", tiny_folder, "--scores", "ll", "--no-tokens"]


def generate_of(tiny_folder):
    return ["generate", "-m", tiny_folder, "-n", "2", "--temperature", "1", "--max-new-tokens", "4"]


BROKEN, LONG = b"broken\n", {"id": "long", "question": "why? " * 500, "response": "so"}
A, B, C, D, E, F = records(6)
CASES = {
    "a broken line is mended": ([A, B, BROKEN, D, E], [A, B, C, D, E], 3),
    "a broken line is mended and more follow": ([A, B, BROKEN, D], [A, B, C, D, E, F], 3),
    "a record that was too long is shortened": ([A, LONG, C], [A, {**LONG, "question": "why?"}, C], 2),
    "the first run had a part": ([B, D], [A, B, C, D], 1),
    "a record is put in": ([A, B, C], [A, B, D, C], 3),
    "a record comes twice": ([A, A], [A, B, A], 2),
}


@pytest.mark.parametrize("command_of", [score_of, generate_of])
@pytest.mark.parametrize(("first", "then", "line"), CASES.values(), ids=CASES)
def test_a_record_whose_place_is_taken_is_refused(run_tokur, tiny_folder, tmp_path, command_of, first, then, line):
    command = [*command_of(tiny_folder), "-o", tmp_path / "out", "--skip-invalid"]
    run_tokur(*command, write_lines(tmp_path / "in", first))
    before = (tmp_path / "out").read_bytes()
    write_lines(tmp_path / "in", then)
    code, _, err = run_tokur(*command, tmp_path / "in", "--resume")
    assert code == 1
    assert f"in:{line}: is missing in {tmp_path / 'out'}, though records that come after it are there" in err
    assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize("command_of", [score_of, generate_of])
@pytest.mark.parametrize(
    "then",
    [[B, A, C, D], [C, B, A], [A, B], [{**A, "question": "another?"}, B, C], [A, C, B], []],
    ids=["swapped", "reversed", "fewer", "another question", "the last two swapped", "nothing"],
)
def test_another_input_is_refused(run_tokur, tiny_folder, tmp_path, command_of, then):
    command = [*command_of(tiny_folder), "-o", tmp_path / "out"]
    run_tokur(*command, write_lines(tmp_path / "in", [A, B, C]))
    before = (tmp_path / "out").read_bytes()
    code, _, err = run_tokur(*command, write_lines(tmp_path / "in", then), "--resume")
    assert (code, "resume with the same input" in err) == (1, True)
    assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize("command_of", [score_of, generate_of])
def test_what_was_skipped_is_skipped_again_and_more_of_the_input_goes_on(run_tokur, tiny_folder, tmp_path, command_of):
    command = [*command_of(tiny_folder), "--skip-invalid", "-o"]
    given = [A, BROKEN, B, LONG, C, {"id": "no question"}, D, A]
    run_tokur(*command, tmp_path / "out", write_lines(tmp_path / "in", given))
    write_lines(tmp_path / "in", [*given, BROKEN, E])
    code, _, err = run_tokur(*command, tmp_path / "out", tmp_path / "in", "--resume")
    assert (code, "skipped 4 invalid records" in err) == (3, True)
    ids = [record["id"] for record in parsed((tmp_path / "out").read_text())]
    assert list(dict.fromkeys(ids)) == [record["id"] for record in (A, B, C, D, E)]
    assert (ids[-1], ids[-2 * ids.count("q4")]) == ("q4", "q0"), "the second A is a record of its own"


def test_more_samples_of_questions_that_are_done_are_refused(run_tokur, tiny_folder, tmp_path):
    command = [*generate_of(tiny_folder), write_lines(tmp_path / "in", [A, B]), "-o", tmp_path / "out"]
    run_tokur(*command)
    before = (tmp_path / "out").read_bytes()
    code, _, err = run_tokur(*command, "-n", "3", "--resume")
    assert (code, "in:1: is missing in" in err) == (1, True)
    assert (tmp_path / "out").read_bytes() == before
