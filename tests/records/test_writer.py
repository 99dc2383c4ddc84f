"""Records are written one at a time, and a run that was killed goes on where it stopped."""

import io
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation, RecordWriter, open_output

calm = settings(
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
SETTINGS = {"sigma": 0.1, "draws": 2, "targets": ["q", "k"]}
RECORD = b'{"a":1}'


def settings_of(record):
    return record.computed("run")


def compute(lines, path, *, resume=False, force=False, run=SETTINGS, bad=()):
    """A small command: gives each record its run's settings, leaves bad ones out."""
    with open_output(
        str(path), resume=resume, force=force, resuming=Continuation(lambda _: run, settings_of)
    ) as writer:
        for number, line in enumerate(lines, start=1):
            record = Record.parse(line, "in.jsonl", number)
            if writer.already_written(record) or number in bad:
                continue
            record.set("tokur", {"schema": 1, "run": run})
            writer.write(record.encode())


def lines_of(count):
    return [json.dumps({"id": n, "response": "r" * (n % 7)}).encode() for n in range(count)]


def test_open_output_keeps_an_existing_file_until_the_first_record(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old and long\n" * 9)
    with pytest.raises(UsageError, match="has something in it"), open_output(str(path)):
        pass
    with pytest.raises(KeyboardInterrupt), open_output(str(path), force=True):
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old and long\n" * 9
    with open_output(str(path), force=True) as writer:
        writer.write(RECORD)
    assert path.read_bytes() == b'{"a":1}\n'


@calm
@given(
    st.lists(st.sampled_from([b'{"a":1}', b'{"a":2}', b'{"b" : 1.10 }', b'{"tokur":{},"a":1}']), max_size=8), st.data()
)
def test_resume_after_any_number_of_bytes_gives_the_undisturbed_file(tmp_path, lines, data):
    """Inputs repeat each other, some are bad, and the file may end in the middle of a line."""
    bad = {number for number, line in enumerate(lines, 1) if line == b'{"a":2}'}
    compute(lines, tmp_path / "whole", bad=bad, force=True)
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    compute(lines, tmp_path / "cut", resume=True, bad=bad)
    assert (tmp_path / "cut").read_bytes() == whole


@pytest.mark.parametrize("foreign", [b"the only copy of my thesis", b'{"id": 0, "response": "mine"}', b"[", b"\0\0"])
@pytest.mark.parametrize("kept", [0, 2])
def test_resume_keeps_a_line_without_an_end_that_is_not_its_own(tmp_path, foreign, kept):
    """Whether the input has a record to write or not."""
    compute(lines_of(kept), tmp_path / "out")
    before = (tmp_path / "out").read_bytes() + foreign
    for lines in ([*lines_of(kept), b'{"id":8}'], lines_of(kept)):
        (tmp_path / "out").write_bytes(before)
        with pytest.raises(TokurError, match=rf"out:{kept + 1}: (is not valid JSON|does not come next)"):
            compute(lines, tmp_path / "out", resume=True)
        assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({**SETTINGS, "sigma": 0.2}, "out:1: was written with sigma 0.1, but this run has sigma 0.2: resume with"),
        ({**SETTINGS, "targets": ["q"]}, 'with targets ["q","k"], but this run has targets ["q"]'),
        ({"sigma": 0.1, "draws": 2}, 'was written with targets ["q","k"], but this run has no targets'),
        ({**SETTINGS, "prompt": {"template": "a"}}, 'no prompt.template, but this run has prompt.template "a"'),
        ({**SETTINGS, "model_digest": "b"}, "out:1: was written with no model_digest, but this run has model_digest"),
    ],
)
def test_resume_refuses_other_settings_and_names_the_first(tmp_path, run, message):
    compute(lines_of(3), tmp_path / "out")
    before = (tmp_path / "out").read_bytes()
    with pytest.raises(TokurError) as caught:
        compute(lines_of(5), tmp_path / "out", resume=True, run=run)
    assert message in str(caught.value)
    assert not isinstance(caught.value, RecordError)
    assert (tmp_path / "out").read_bytes() == before


def test_resume_refuses_a_file_of_a_newer_schema(tmp_path):
    compute(lines_of(3), tmp_path / "out")
    (tmp_path / "out").write_bytes((tmp_path / "out").read_bytes().replace(b'"schema":1', b'"schema":99', 1))
    with pytest.raises(TokurError, match=r"out:1: .* schema 99"):
        compute(lines_of(5), tmp_path / "out", resume=True)


@pytest.mark.parametrize("tail", [b"", b'{"half'])
@pytest.mark.parametrize("other", [lines_of(5)[::-1], lines_of(2), []])
def test_resume_refuses_another_input_before_anything_is_written_over(tmp_path, other, tail):
    compute(lines_of(3), tmp_path / "out")
    before = (tmp_path / "out").read_bytes() + tail
    (tmp_path / "out").write_bytes(before)
    with pytest.raises(TokurError, match=r"out:\d: does not come next in the input, so the file is not"):
        compute(other, tmp_path / "out", resume=True)
    assert (tmp_path / "out").read_bytes() == before


def test_resume_names_a_corrupt_line_in_the_middle(tmp_path):
    compute(lines_of(3), tmp_path / "out")
    first, second, third = (tmp_path / "out").read_bytes().splitlines()
    (tmp_path / "out").write_bytes(first + b"\n" + second[:20] + b"\n" + third + b"\n")
    with pytest.raises(TokurError, match=r"out:2: is not valid JSON: .*; it cannot be resumed"):
        compute(lines_of(5), tmp_path / "out", resume=True)


def test_open_output_is_written_by_one_run(tmp_path):
    path = str(tmp_path / "out")
    with open_output(path):
        with pytest.raises(TokurError, match="out: another run is writing it: give another"), open_output(path):
            pass
        with open_output(path + "-b") as writer:
            writer.write(RECORD)
            assert (tmp_path / "out-b").read_bytes() == b'{"a":1}\n'


def test_open_output_names_the_file_where_the_disk_is_full(tmp_path):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (  # noqa: PT012
        pytest.raises(TokurError, match="out: cannot be written: File too large"),
        writing_whole(str(tmp_path / "out")) as file,
    ):
        writer = RecordWriter(file.buffer, "out")
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        try:
            for _ in range(9):
                writer.write(RECORD)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("interrupted", ["write", "flush"])
def test_writer_leaves_whole_lines_whenever_ctrl_c_comes(interrupted):
    class Stream(io.BytesIO):
        """Ctrl-C comes as a call returns."""

        def write(self, data):
            written = super().write(data)
            if interrupted == "write":
                raise KeyboardInterrupt
            return written

        def flush(self):
            if interrupted == "flush":
                raise KeyboardInterrupt

    stream = Stream()
    with pytest.raises(KeyboardInterrupt), open_output(None, standard_output=stream) as writer:
        writer.write(RECORD)
    assert stream.getvalue() == b'{"a":1}\n'
