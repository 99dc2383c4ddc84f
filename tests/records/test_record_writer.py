"""Records are written one at a time, and a run that was killed goes on where it stopped."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.reader import read_records
from tokur_cli.records.record import Record
from tokur_cli.records.writer import Continuation, open_output

calm = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
SETTINGS = {"sigma": 0.1, "draws": 2, "targets": ["q", "k"]}


def settings_of(tokur):
    return tokur.get("run", {})


def compute(lines, path, *, resume=False, force=False, run=SETTINGS, bad=(), stop_after=None):
    """A small command: gives each record its run's settings, leaves bad ones out; stops like a crash after a few."""
    written = 0
    with open_output(
        str(path), resume=resume, force=force, resuming=Continuation(lambda _: run, settings_of)
    ) as writer:
        for number, line in enumerate(lines, start=1):
            record = Record.parse(line, "in.jsonl", number)
            if writer.already_written(record) or number in bad:
                continue
            if written == stop_after:
                raise KeyboardInterrupt
            record.set("tokur", {"schema": 1, "run": run})
            writer.write(record)
            written += 1


@pytest.mark.parametrize("interrupted", ["write", "flush"])
def test_ctrl_c_at_any_call_leaves_whole_lines(interrupted):
    class Stream(io.BytesIO):
        """Ctrl-C comes as a call returns."""

        def write(self, data):
            super().write(data)
            if interrupted == "write":
                raise KeyboardInterrupt

        def flush(self):
            if interrupted == "flush":
                raise KeyboardInterrupt

    stream = Stream()
    with pytest.raises(KeyboardInterrupt), open_output(None, standard_output=stream) as writer:
        writer.write(Record.parse(b'{"a":1}', None, None))
    assert stream.getvalue() == b'{"a":1}\n'


def lines_of(count):
    return [json.dumps({"id": n, "response": "r" * (n % 7)}).encode() for n in range(count)]


def test_records_are_written_with_their_line_ends(tmp_path):
    compute([b'{"a":1.10}', b"{}"], tmp_path / "out")
    run = b'"tokur":{"schema":1,"run":{"sigma":0.1,"draws":2,"targets":["q","k"]}}}\n'
    assert (tmp_path / "out").read_bytes() == b'{"a":1.10,' + run + b"{" + run


def test_standard_output_takes_each_record_at_once(monkeypatch):
    stdout = io.TextIOWrapper(io.BufferedWriter(io.BytesIO()))
    monkeypatch.setattr("sys.stdout", stdout)
    for path in (None, "-"):
        with open_output(path) as writer:
            assert not writer.already_written(Record.parse(b"{}", None, None))
            writer.write(Record.parse(b'{"a":1}', None, None))
            assert stdout.buffer.raw.getvalue().endswith(b'{"a":1}\n')
    assert stdout.buffer.raw.getvalue() == b'{"a":1}\n' * 2


def test_a_file_holds_each_record_as_soon_as_it_is_written(tmp_path):
    with open_output(str(tmp_path / "out")) as writer:
        writer.write(Record.parse(b'{"a":1}', None, None))
        assert (tmp_path / "out").read_bytes() == b'{"a":1}\n'


def test_an_existing_file_is_kept_until_the_first_record_and_then_replaced(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old and long\n" * 9)
    with pytest.raises(UsageError, match="has something in it"):
        open_output(str(path))
    with pytest.raises(KeyboardInterrupt), open_output(str(path), force=True):
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old and long\n" * 9
    with open_output(str(path), force=True) as writer:
        writer.write(Record.parse(b"{}", None, None))
    assert path.read_bytes() == b"{}\n"
    with open_output(str(path), force=True):
        pass
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "resume", "written", "told"),
    [
        ("out", False, 1, True), ("out", False, 0, False), ("out", None, 1, False), ("/dev/null", False, 1, False),
        (None, None, 1, False), (None, False, 0, False),
    ],
)  # fmt: skip
def test_ctrl_c_tells_how_to_go_on_where_that_goes(name, resume, written, told, tmp_path, capsysbinary):
    path = str(tmp_path / name) if name == "out" else name

    def interrupted():
        with open_output(path, resume=resume) as writer:
            for _ in range(written):
                writer.write(Record.parse(b"{}", None, None))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted()
    assert raised.value.args == ((f"{path} keeps what is done: go on with --resume",) if told else ())


@pytest.mark.parametrize(("written", "said"), [(1, "1 record was written; "), (2, "2 records were written; ")])
def test_ctrl_c_tells_what_standard_output_got_and_how_a_run_can_be_resumed(written, said, capsysbinary):
    def interrupted():
        with open_output(None, resume=False) as writer:
            for _ in range(written):
                writer.write(Record.parse(b"{}", None, None))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=f"^{said}with -o FILE, --resume goes on where a run was cut off$"):
        interrupted()


def test_resuming_a_file_that_is_not_there_starts_it(tmp_path):
    compute(lines_of(3), tmp_path / "a", resume=True)
    compute(lines_of(3), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != b""


@calm
@given(st.lists(st.sampled_from([b'{"a":1}', b'{"a":2}', b'{"b" : 1.10 }', b"{}"]), max_size=8), st.data())
def test_resuming_after_any_number_of_bytes_gives_the_undisturbed_file(tmp_path, lines, data):
    """Inputs repeat each other, some are bad, and the file may end in the middle of a line."""
    bad = {number for number, line in enumerate(lines, 1) if line == b'{"a":2}'}
    compute(lines, tmp_path / "whole", bad=bad, force=True)
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    compute(lines, tmp_path / "cut", resume=True, bad=bad)
    assert (tmp_path / "cut").read_bytes() == whole


@pytest.mark.parametrize(
    "foreign",
    [
        b"the only copy of my thesis", b'{"id": 0, "response": "mine"}', b'{"id":0', b'{"id":0,"response":"half of ano',
        b'{"tokur":{"run":{}},"id":0}', b"[", b"\0\0\0\0", lines_of(9)[0],
    ],
)  # fmt: skip
@pytest.mark.parametrize("kept", [0, 2])
def test_a_line_without_an_end_that_is_not_the_beginning_of_what_is_due_stays(tmp_path, foreign, kept):
    """Whether the input has a record to write or not."""
    compute(lines_of(kept), tmp_path / "out")
    before = (tmp_path / "out").read_bytes() + foreign
    others = [*lines_of(kept), b'{"id":8}', b'{"id":9}']
    for lines in (others, lines_of(kept)):
        (tmp_path / "out").write_bytes(before)
        with pytest.raises(TokurError, match=rf"out:{kept + 1}: this line has no end, and is not the beginning of"):
            compute(lines, tmp_path / "out", resume=True)
        assert (tmp_path / "out").read_bytes() == before


def test_a_line_without_an_end_is_a_record_of_this_run_only_with_its_settings(tmp_path):
    """The input itself, whose last line has no end, and a record of other settings; both are this input's first."""
    other = b'{"id":0,"response":"","tokur":{"schema":1,"run":{"sigma":0.3}}}'
    for tail, said in ((b'{"id":0,"response":""}', "no sigma"), (other, "sigma 0.3")):
        (tmp_path / "out").write_bytes(tail)
        with pytest.raises(TokurError, match=rf"out:1: was written with {said}, but this run has sigma 0.1"):
            compute([b'{"id":0,"response":""}'], tmp_path / "out", resume=True)
        assert (tmp_path / "out").read_bytes() == tail


def test_a_line_cut_among_numbers_that_come_out_a_little_different_now_is_written_again(tmp_path):
    compute(lines_of(3), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    first, second, third = whole.splitlines(keepends=True)
    other = third.replace(b'"sigma":0.1', b'"sigma":0.10000001')
    assert other != third
    (tmp_path / "cut").write_bytes(first + second + other[:-20])
    compute(lines_of(3), tmp_path / "cut", resume=True)
    assert (tmp_path / "cut").read_bytes() == whole


def test_records_that_came_with_a_tokur_object_are_recognised_when_resuming(tmp_path):
    lines = [b'{"tokur": {"sample": 0}, "a": 1}', b'{ "tokur":{"sample":1} }', b'{"a":1 , "tokur":{}, "b":2}']
    compute(lines, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        compute(lines, tmp_path / "cut", stop_after=2)
    compute(lines, tmp_path / "cut", resume=True)
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


def test_rows_of_a_foreign_format_are_recognised_when_resuming(tmp_path):
    """One row gives two records here, which differ in the response alone."""
    path = tmp_path / "samples.jsonl"
    path.write_text(
        "".join(
            json.dumps({"doc_id": n, "doc": {}, "target": n, "arguments": [["P", {}]], "resps": [["a", "a", "b"]]})
            + "\n"
            for n in range(3)
        )
    )

    def run(out, stop_after=None, resume=False):
        with open_output(str(out), resume=resume) as writer:
            for number, record in enumerate(read_records(str(path))):
                if number == stop_after:
                    raise KeyboardInterrupt
                if not writer.already_written(record):
                    record.set("tokur", {**record.tokur, "scores": {}})
                    writer.write(record)

    run(tmp_path / "whole")
    assert len((tmp_path / "whole").read_bytes().splitlines()) == 9
    for stop_after in range(9):
        (tmp_path / "cut").unlink(missing_ok=True)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", stop_after)
        run(tmp_path / "cut", resume=True)
        assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({**SETTINGS, "sigma": 0.2}, "out:1: was written with sigma 0.1, but this run has sigma 0.2: resume with"),
        ({**SETTINGS, "targets": ["q"]}, 'with targets ["q", "k"], but this run has targets ["q"]'),
        ({**SETTINGS, "rank": 8}, "was written with no rank, but this run has rank 8"),
        ({**SETTINGS, "layers": None}, "was written with no layers, but this run has layers null"),
        ({"sigma": 0.1, "draws": 2}, 'was written with targets ["q", "k"], but this run has no targets'),
        ({**SETTINGS, "draws": None}, "was written with draws 2, but this run has draws null"),
    ],
)
def test_resuming_with_other_settings_is_refused_and_names_the_first(tmp_path, run, message):
    compute(lines_of(3), tmp_path / "out")
    before = (tmp_path / "out").read_bytes()
    with pytest.raises(TokurError) as caught:
        compute(lines_of(5), tmp_path / "out", resume=True, run=run)
    assert message in str(caught.value)
    assert not isinstance(caught.value, RecordError)
    assert (tmp_path / "out").read_bytes() == before


def test_settings_are_compared_as_json_says_them(tmp_path):
    compute(lines_of(2), tmp_path / "out", run={"sigma": 1, "targets": ("q", "k")})
    compute(lines_of(3), tmp_path / "out", resume=True, run={"sigma": 1.0, "targets": ["q", "k"]})
    assert len((tmp_path / "out").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("tail", [b"", b'{"half'])
@pytest.mark.parametrize("other", [lines_of(5)[::-1], lines_of(2), [], [b'{"id":9}']])
def test_resuming_with_another_input_is_refused_before_anything_is_written_over(tmp_path, other, tail):
    compute(lines_of(3), tmp_path / "out")
    with open(tmp_path / "out", "ab") as file:
        file.write(tail)
    before = (tmp_path / "out").read_bytes()
    with pytest.raises(TokurError, match=r"out:\d: this record does not come next in the input, so the file is not"):
        compute(other, tmp_path / "out", resume=True)
    assert (tmp_path / "out").read_bytes() == before


@pytest.mark.parametrize(
    ("first", "then", "line"),
    [("01-34", "01234", 3), ("01-34", "012345", 3), ("12", "012", 1), ("0134", "01-2345", 4), ("00", "0100", 2)],
)
def test_a_record_whose_place_is_taken_is_refused_not_written_out_of_order(tmp_path, first, then, line):
    """A digit is a record, ``-`` a line that is skipped as invalid; then it is mended, or another was not there."""

    def run(digits, *, resume=None):
        """As commands do: look at a whole window, then write what is missing."""
        with open_output(str(tmp_path / "out"), resume=resume) as writer:
            window = [
                Record.parse(json.dumps({"n": digit}).encode(), "in.jsonl", number)
                for number, digit in enumerate(digits, start=1)
                if digit != "-"
            ]
            for record in [record for record in window if not writer.already_written(record)]:
                record.set("tokur", {"schema": 1})
                writer.write(record)

    run(first)
    before = (tmp_path / "out").read_bytes()
    with pytest.raises(TokurError, match=rf"in\.jsonl:{line}: is missing in \S*out, though records") as caught:
        run(then, resume=True)
    assert not isinstance(caught.value, RecordError)
    assert (tmp_path / "out").read_bytes() == before
    run(first + "56", resume=True)
    assert [json.loads(row)["n"] for row in (tmp_path / "out").open()] == [*first.replace("-", ""), "5", "6"]


def test_a_corrupt_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    compute(lines_of(3), tmp_path / "out")
    first, second, third = (tmp_path / "out").read_bytes().splitlines()
    (tmp_path / "out").write_bytes(first + b"\n" + second[:20] + b"\n" + third + b"\n")
    before = (tmp_path / "out").read_bytes()
    with pytest.raises(TokurError, match=r"out:2: is not valid JSON: .*; it cannot be resumed") as caught:
        compute(lines_of(5), tmp_path / "out", resume=True)
    assert not isinstance(caught.value, RecordError)
    assert (tmp_path / "out").read_bytes() == before


def test_a_newer_schema_in_the_output_ends_the_run_not_the_record(tmp_path):
    (tmp_path / "out").write_bytes(b'{"a":1,"tokur":{"schema":2}}\n')
    with pytest.raises(TokurError, match=r"out:1: .*schema 2") as caught:
        compute([b'{"a":1}'], tmp_path / "out", resume=True)
    assert not isinstance(caught.value, RecordError)


def test_options_that_cannot_go_together_are_usage_errors(tmp_path):
    for path in (None, "-"):
        for option in ("resume", "force"):
            with pytest.raises(UsageError, match=f"--{option} is about a file that is written"):
                open_output(path, **{option: True})
    with pytest.raises(UsageError, match="--resume continues a file and --force replaces it"):
        open_output(str(tmp_path / "out"), resume=True, force=True)
    for name in ("out.jsonl.gz", "out.jsonl.zst"):
        with pytest.raises(UsageError, match=r"write to standard output, `\| (gzip|zstd) > out\.jsonl\."):
            open_output(name)
    with pytest.raises(UsageError, match="is not a regular file: --resume cannot continue it"):
        open_output(os.devnull, resume=True)


def test_a_device_is_written_and_never_in_the_way():
    for _ in range(2):
        with open_output(os.devnull) as writer:
            writer.write(Record.parse(b"{}", None, None))


@pytest.mark.parametrize("option", ["resume", "force"])
def test_a_file_that_another_run_writes_is_left_alone_and_the_run_is_named(tmp_path, option):
    path = str(tmp_path / "out")
    other = (
        "import sys; from tokur_cli.records.writer import open_output; from tokur_cli.records.record import Record\n"
        "with open_output(sys.argv[1]) as writer:\n"
        "    writer.write(Record.parse(b'{}', None, None)); print('ready', flush=True); sys.stdin.read()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", other, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "ready\n"
    with pytest.raises(TokurError, match=r"out: is being written by \w+ \w+: wait") as caught:
        open_output(path, **{option: True})
    assert not os.path.exists("/proc/locks") or f"process {run.pid}:" in str(caught.value)
    run.communicate("")
    assert (run.returncode, (tmp_path / "out").read_bytes()) == (0, b"{}\n")
    open_output(path, **{option: True}).close()


def test_what_cannot_be_opened_or_written_is_an_error_that_names_it(tmp_path):
    with pytest.raises(TokurError, match="cannot be written: Is a directory"):
        open_output(str(tmp_path))
    with pytest.raises(TokurError, match=r"nowhere/out: cannot be written: No such file or directory"):
        open_output(str(tmp_path / "nowhere" / "out"))
    if os.path.exists("/dev/full"):
        with (
            pytest.raises(TokurError, match=r"/dev/full: cannot be written: No space left"),
            open_output("/dev/full") as out,
        ):
            out.write(Record.parse(b"{}", None, None))


def test_a_closed_pipe_is_left_to_the_caller(tmp_path):
    code = textwrap.dedent("""
        import os
        from tokur_cli.records.record import Record
        from tokur_cli.records.writer import open_output
        try:
            with open_output(None) as writer:
                while True:
                    writer.write(Record.parse(b'{"a":1}', None, None))
        except BrokenPipeError:
            os._exit(7)
    """)
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert run.stdout.readline() == b'{"a":1}\n'
    run.stdout.close()
    assert run.wait(30) == 7


WORKER = """
import sys
from tokur_cli.records.errors import RecordError
from tokur_cli.records.reader import read_records
from tokur_cli.records.writer import Continuation, open_output

source, out = sys.argv[1:]
run = {"seed": 0}
print("ready", flush=True)
with open_output(out, resume=True, resuming=Continuation(lambda _: run, lambda tokur: tokur["run"])) as writer:
    for record in read_records(source):
        if isinstance(record, RecordError) or writer.already_written(record):
            continue
        record.set("tokur", {"schema": 1, "run": run, "tokens": {"tu": [record.get("n") / 3] * 500}})
        writer.write(record)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_killing_the_process_at_random_moments_loses_and_doubles_nothing(tmp_path):
    source, whole, killed = (tmp_path / name for name in ("in.jsonl", "whole", "killed"))
    rows = ("broken" if n % 50 == 7 else json.dumps({"n": n % 5, "r": "r" * (n % 3)}) for n in range(1500))
    source.write_text("".join(row + "\n" for row in rows))
    worker = [sys.executable, "-c", WORKER, str(source)]
    subprocess.run([*worker, str(whole)], check=True, stdout=subprocess.DEVNULL)
    expected = whole.read_bytes()
    killed.touch()
    chance = random.Random(0)
    sizes = []
    for kill in range(10):
        # by a chosen size of the file rather than by the clock, so that slow machines test the same
        target = chance.uniform(kill / 10, (kill + 1) / 10) * 0.9 * len(expected)
        run = subprocess.Popen([*worker, str(killed)], stdout=subprocess.PIPE)
        run.stdout.readline()
        while killed.stat().st_size < target and run.poll() is None:
            time.sleep(0.0002)
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
        sizes.append(killed.stat().st_size)
        assert expected.startswith(killed.read_bytes())
    assert len({size for size in sizes if 0 < size < len(expected)}) > 1
    subprocess.run([*worker, str(killed)], check=True, stdout=subprocess.DEVNULL)
    assert killed.read_bytes() == expected
