"""Lines, elements and archive members that are too long are errors in their place; memory stays bounded."""

import gzip
import json
import os
import subprocess
import sys
import textwrap
import time
import zipfile

import pytest

from tests.records.test_evaluation_logs import zstd_archive
from tests.records.test_record_streams import zstd_compress
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.reader import read_records
from tokur_cli.records.streams import MAX_LINE, in_bytes

LIMIT = 1000
TOO_LONG = "is longer than 1 kB: raise --set max_line to read it"


def row(number, size=0):
    bare = json.dumps({"n": number, "text": ""})
    return json.dumps({"n": number, "text": "x" * max(0, size - len(bare))})


def outcomes(path, **options):
    """Return each row's number, or (source, line, message) of its error."""
    return [
        (item.source.rpartition("/in")[2], item.line, item.message) if isinstance(item, RecordError) else item.get("n")
        for item in read_records(str(path), **{"max_line": LIMIT, **options})
    ]


ROWS = [row(1), row(2, LIMIT), row(3, LIMIT + 1), row(4), row(5, 200_000), row(6)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd_compress])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_is_too_long_is_an_error_and_the_next_is_read(tmp_path, compress, end):
    rows = [*ROWS[:1], row(2, LIMIT + 1 - len(end)), *ROWS[2:]]
    (tmp_path / "in").write_bytes(compress(end.join(rows).encode()))
    assert outcomes(tmp_path / "in") == [1, 2, ("", 3, TOO_LONG), 4, ("", 5, TOO_LONG), 6]
    assert outcomes(tmp_path / "in", max_line=1_000_000) == [1, 2, 3, 4, 5, 6]


def test_a_last_line_that_is_too_long_is_an_error_with_or_without_its_end(tmp_path):
    for end in ("", "\n"):
        (tmp_path / "in").write_text(f"{row(1)}\n{row(2, LIMIT + 1)}{end}")
        assert outcomes(tmp_path / "in") == [1, ("", 2, TOO_LONG)]


def test_an_element_that_is_too_long_is_an_error_and_the_next_is_read(tmp_path):
    rows = [row(1), row(2, LIMIT), row(3, LIMIT + 1), row(4), row(5, 200_000).replace(",", ",\n"), row(6), row(7, 2000)]
    (tmp_path / "in").write_text("[" + ",\n".join(rows) + "]")
    expected = [1, 2, ("[2]", 3, TOO_LONG), 4, ("[4]", 5, TOO_LONG), 6, ("[6]", 8, TOO_LONG)]
    assert outcomes(tmp_path / "in") == expected


@pytest.mark.parametrize("length", range(131_000, 131_100, 7))
def test_what_is_let_go_may_end_in_an_escape(tmp_path, length):
    """65,536 bytes are read at once: a backslash is the last of them at some of these lengths."""
    text = '{"text": "' + "x" * length + '\\"]}' * 40 + '"}'
    (tmp_path / "in").write_text(f"[{text},\n{row(2)}]")
    assert outcomes(tmp_path / "in") == [("[0]", 1, TOO_LONG), 2]


def test_samples_of_a_log_that_are_too_long_are_errors_and_what_comes_before_them_may_be_long(tmp_path):
    log = {"version": 2, "status": "success", "eval": "y" * 200_000}
    text = json.dumps(log)[:-1] + ', "samples": [' + ",".join(ROWS) + "]}"
    (tmp_path / "in").write_text(text)
    found = outcomes(tmp_path / "in", format="tokur")
    assert found == [1, 2, ("[2]", 1, TOO_LONG), 4, ("[4]", 1, TOO_LONG), 6]


def test_members_of_an_archive_that_are_too_long_are_errors(tmp_path):
    with zipfile.ZipFile(tmp_path / "in", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, text in enumerate(ROWS):
            archive.writestr(f"samples/{number}.json", text)
    expected = [1, 2, ("/samples/2.json", 1, TOO_LONG), 4, ("/samples/4.json", 1, TOO_LONG), 6]
    assert outcomes(tmp_path / "in") == expected
    zstd_archive(tmp_path / "in", [(f"samples/{n}.json".encode(), text.encode()) for n, text in enumerate(ROWS)])
    assert outcomes(tmp_path / "in") == expected


@pytest.mark.parametrize("compression", ["deflate", "zstd"])
def test_a_member_that_is_longer_than_the_archive_says_is_an_error(tmp_path, compression):
    if compression == "zstd":
        zstd_archive(tmp_path / "in", [(b"samples/1.json", row(1, 50_000).encode())])
    else:
        with zipfile.ZipFile(tmp_path / "in", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("samples/1.json", row(1, 50_000))
    data = bytearray((tmp_path / "in").read_bytes())
    directory = data.index(b"PK\1\2")
    data[directory + 24 : directory + 28] = (500).to_bytes(4, "little")
    (tmp_path / "in").write_bytes(data)
    with pytest.raises(TokurError, match=r"in: is not an Inspect log that can be read: .*(CRC|checksum)"):
        outcomes(tmp_path / "in")


def test_a_request_that_is_too_long_is_an_error_with_its_line(tmp_path):
    (tmp_path / "requests").write_text('{"custom_id": "a"}\n' + json.dumps({"custom_id": "b" * 2000}))
    (tmp_path / "in").write_text('{"custom_id": "a", "response": {}, "error": null}')
    with pytest.raises(TokurError, match=f"requests:2: {TOO_LONG}"):
        outcomes(tmp_path / "in", requests=str(tmp_path / "requests"))


def test_what_is_copied_to_be_read_out_of_order_is_bounded(tmp_path):
    (tmp_path / "in").write_bytes(gzip.compress(b"PK\3\4" + bytes(64 * LIMIT)))
    with pytest.raises(TokurError, match=r"in: holds more than 64 kB, too much to be copied: give it unpacked"):
        outcomes(tmp_path / "in")


def test_a_zstd_window_of_two_gigabytes_is_an_error(tmp_path):
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, (31 - 10) << 3]) + bytes.fromhex("010000")
    (tmp_path / "in").write_bytes(frame)
    with pytest.raises(TokurError, match=r"in: the zstd data cannot be unpacked: .*memory"):
        outcomes(tmp_path / "in")


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":['])
def test_deep_nesting_is_an_error_of_its_record(tmp_path, opening):
    (tmp_path / "in").write_text(f"{row(1)}\n{opening * 100_000}\n{row(3)}\n")
    assert outcomes(tmp_path / "in", max_line=MAX_LINE) == [1, ("", 2, "is nested too deeply to be read"), 3]
    (tmp_path / "in").write_text('[{"a":' + "[" * 100_000 + "]" * 100_000 + "}," + row(2) + "]")
    assert outcomes(tmp_path / "in", max_line=MAX_LINE) == [("[0]", 1, "is nested too deeply to be read"), 2]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd_compress])
@pytest.mark.parametrize("blank", [b"\n", b" \r\n", b" " * 999 + b"\n", b"\t\n\n\x0b \n"])
def test_millions_of_blank_lines_are_passed_over_and_counted(tmp_path, compress, blank):
    """The numbers of the lines are counted by hand; with a line at a time this took 7 s."""
    count = 5_000_000 // len(blank)
    lines = count * blank.count(b"\n")
    text = b"".join((row(1).encode(), b"\n", blank * count, row(2).encode(), b"\n\n", row(3).encode()))
    (tmp_path / "in").write_bytes(compress(text))
    started = time.process_time()
    found = list(read_records(str(tmp_path / "in"), max_line=10_000_000))
    assert time.process_time() - started < 1
    assert [record.line for record in found] == [1, lines + 2, lines + 4]


def test_blank_lines_count_as_a_line_that_is_too_long(tmp_path):
    for blank, lines in ((b"\n" * (LIMIT + 10), LIMIT), (b" \n" * LIMIT, LIMIT // 2)):
        for begin in (b"", b"{}\n"):
            (tmp_path / "in").write_bytes(gzip.compress(begin + blank + b"{}\n"))
            with pytest.raises(TokurError, match=r"in:\d+: holds more than 1 kB of blank lines in a row$") as raised:
                outcomes(tmp_path / "in")
            assert lines < int(str(raised.value).split(":")[1]) <= blank.count(b"\n") + 1
    (tmp_path / "in").write_bytes(b"\n" * (LIMIT - 2) + b"{}\n" + b"\n" * (LIMIT - 2) + b"{}")
    assert outcomes(tmp_path / "in") == [None, None]
    (tmp_path / "array").write_bytes(gzip.compress(b"[" + b" \n" * LIMIT + b"{}]"))
    with pytest.raises(TokurError, match=r"array:\d+: holds more than 1 kB of white space in a row$"):
        outcomes(tmp_path / "array")


def test_blank_lines_of_requests_and_tables_are_bounded_too(tmp_path, monkeypatch):
    (tmp_path / "requests").write_bytes(gzip.compress(b"\n" * 2000))
    (tmp_path / "in").write_text('{"custom_id": "a", "response": {}, "error": null}')
    with pytest.raises(TokurError, match=r"requests:\d+: holds more than 1 kB of blank lines in a row"):
        outcomes(tmp_path / "in", requests=str(tmp_path / "requests"))
    monkeypatch.setattr("tokur_cli.records.published.tables._MOST_BLANK", 5)
    path = tmp_path / "in.csv.gz"
    path.write_bytes(gzip.compress(b"n,m\n" + b"\n" * 5 + b"1,2\n" + b"\n" * 5 + b"3,4\n"))
    assert outcomes(path) == ["1", "3"]
    path.write_bytes(gzip.compress(b"n,m\n1,2\n" + b"\n" * 6 + b"3,4\n"))
    with pytest.raises(TokurError, match=r"in\.csv\.gz:8: holds more than 5 blank lines in a row"):
        outcomes(path)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_requests_are_found_behind_blank_lines(tmp_path, start):
    asked = [b'{"custom_id": "%s", "body": {"prompt": "%s?"}}\n' % (name, name) for name in (b"a", b"b")]
    (tmp_path / "requests").write_bytes(start + b"\n" * 300 + asked[0] + b" \n\r\n\n" + asked[1])
    answers = [{"custom_id": name, "response": {"body": {"choices": [{"text": name}]}}, "error": None} for name in "ba"]
    (tmp_path / "in").write_text("\n".join(map(json.dumps, answers)))
    found = read_records(str(tmp_path / "in"), requests=str(tmp_path / "requests"))
    assert [record.prompt.text for record in found] == ["b?", "a?"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zeros.zst", "zeros.gz", "lines.zst", "array.zst", "spaces.zst", "zeros.eval"])
def test_memory_is_bounded_whatever_an_archive_swells_to(tmp_path, form):
    """One or two gigabytes, read by a process that may have 0.7."""
    path, block = tmp_path / form, bytes(1 << 20)
    if form == "zeros.gz":
        path.write_bytes(gzip.compress(bytes(128 << 20), 1) * 16)
    elif form == "zeros.eval":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("samples/1.json", bytes(128 << 20))
    else:
        begin = {"array.zst": b'[{"a":"', "spaces.zst": b"["}.get(form, b"")
        part = {"lines.zst": block[:-1] + b"\n", "spaces.zst": b" " * len(block)}.get(form, block)
        path.write_bytes(zstd_compress(begin) + zstd_compress(part) * (1024 if form == "array.zst" else 2048))
    code = textwrap.dedent("""
        import resource, sys
        from tokur_cli.records.errors import RecordError
        from tokur_cli.records.reader import read_records
        resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
        errors = 0
        for item in read_records(sys.argv[1]):
            assert isinstance(item, RecordError), item
            errors += 1
        print(errors)
    """)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, env=environment)
    if form == "array.zst":
        assert "the file is not complete" in found.stderr
    elif form == "spaces.zst":
        assert "holds more than 64 MB of white space in a row" in found.stderr
    else:
        assert (found.stdout, found.stderr) == ("2048\n" if form == "lines.zst" else "1\n", "")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("64MB", 64_000_000), ("1 GB", 10**9), ("500k", 500_000), ("12", 12), ("3gb", 3 * 10**9), ("999999999999G", None)],
)
def test_the_longest_line_is_given_in_units(given, meant):
    from tokur_cli.commands.options.streams import InputOptions

    assert InputOptions(max_line=given).max_line_bytes == (sys.maxsize - 1 if meant is None else meant)


@pytest.mark.parametrize("given", ["", "0", "-1MB", "MB", "1.5MB", "64TB", "1" * 5000])
def test_other_lengths_are_refused(run_tokur, tmp_path, given):
    (tmp_path / "in").write_text(row(1))
    code, _, err = run_tokur("select", tmp_path / "in", f"--set=max_line={given}")
    assert (code, err) == (2, f"tokur select: --set max_line={given}: is not a number of bytes, such as 64MB or 1GB\n")


def test_the_limit_is_named_in_round_numbers():
    assert list(map(in_bytes, (999, 1000, 1500, 64_000_000, 10**12))) == [
        "999 bytes",
        "1 kB",
        "1,500 bytes",
        "64 MB",
        "1,000 GB",
    ]


def test_commands_skip_a_line_that_is_too_long(run_tokur, tmp_path):
    scored = {"id": "a", "question": "q", "response": "4", "tokur": {"scores": {"eu": 0.5}}}
    lines = [json.dumps(scored), json.dumps({**scored, "more": "x" * 3000}), json.dumps({**scored, "id": "b"})]
    (tmp_path / "in").write_text("\n".join(lines))
    for command, *options in (("select", "--by", "eu"), ("evaluate", "--graded", tmp_path / "out", "--force")):
        code, _, err = run_tokur(command, tmp_path / "in", "--set", "max_line=1kB", *options)
        assert code == 1
        assert f"in:2: {TOO_LONG}" in err
        code, _, err = run_tokur(command, tmp_path / "in", "--set", "max_line=1kB", "--skip-invalid", *options)
        assert f"in:2: {TOO_LONG}" in err
        assert ("skipped 1 invalid record" in err) == (code == 3)
        assert (code == 3) == (command == "select")  # to evaluate, no record has a label
