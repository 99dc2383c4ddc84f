"""Bytes come in from wherever they are, as lines or an array's elements; what is too long is an error in its place."""

import gzip
import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records.test_evaluation_logs import zstd_archive, zstd_compress
from tokur_cli.records.arrays import array_elements
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.reader import read_records
from tokur_cli.records.streams import MAX_LINE, BoundedLines, open_input

calm = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"
LINES = b'\xef\xbb\xbf{"a":1}\n{"b":"\xe2\x80\xa8"}\r\n\n  \n{"c":3}'
FORMS = {
    "plain": LINES,
    "gzip of several members": gzip.compress(LINES[:5]) + gzip.compress(b"") + gzip.compress(LINES[5:]),
    "gzip with padding": gzip.compress(LINES) + b"\0" * 100,
    "zstd of several frames": zstd_compress(LINES[:5]) + zstd_compress(LINES[5:]),
    "zstd with skippable frames": SKIPPABLE_FRAME + zstd_compress(LINES) + SKIPPABLE_FRAME,
}
COMPRESS = {"gzip": gzip.compress, "zstd": zstd_compress}
LIMIT = 1000
TOO_LONG = "is longer than 1 kB: raise --set max_line to read it"


def outcomes(path, **options):
    """Return each row's fields, or (source, line, message) of its error."""
    return [
        (item.source.rpartition("/in")[2], item.line, item.message) if isinstance(item, RecordError) else item.fields
        for item in read_records(str(path), **{"max_line": LIMIT, **options})
    ]


@pytest.mark.parametrize("form", FORMS)
def test_open_input_reads_files_and_standard_input_in_every_form(form, tmp_path, monkeypatch):
    (tmp_path / "in").write_bytes(FORMS[form])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FORMS[form])))
    for path in (str(tmp_path / "in"), "-"):
        records = list(read_records(path))
        assert [(record.line, record.fields) for record in records] == [
            (1, {"a": 1}), (2, {"b": "\u2028"}), (5, {"c": 3})
        ]  # fmt: skip


@calm
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b" ", b"\t", b"\xe2\x80\xa8", b"\x85", b"\x0b", b"\x00"])))
def test_bounded_lines_split_at_line_feeds_alone(parts):
    data = b"".join(parts)
    expected = [
        (number, line.rstrip(b"\r"))
        for number, line in enumerate(data.split(b"\n"), start=1)
        if line.strip(b" \t\r\x0b\x0c")
    ]
    lines = BoundedLines(io.BytesIO(data), "in")
    assert [(lines.number, line) for line in lines] == expected


@pytest.mark.parametrize("form", COMPRESS)
def test_open_input_delivers_what_comes_before_a_cut_archives_end(form, tmp_path):
    lines = [json.dumps({"n": n, "noise": os.urandom(40).hex()}).encode() for n in range(3000)]
    archive = COMPRESS[form](b"\n".join(lines))
    (tmp_path / "in").write_bytes(archive[: len(archive) // 2])
    found, message = until_error(read_records(str(tmp_path / "in")))
    assert f"in: the {form} data is cut short: the file is not complete" in message
    assert 1000 < len(found) < 2000


def until_error(items):
    """Return what comes before an error, and its message."""
    found = []
    try:
        for item in items:
            found.append(item)
    except TokurError as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("form", COMPRESS)
def test_open_input_names_a_corrupt_archive(form, tmp_path):
    archive = bytearray(COMPRESS[form](LINES * 100))
    archive[len(archive) // 2] ^= 0xFF
    archive[-3] ^= 0xFF  # the checksum, which only gzip always has
    for data in (archive, COMPRESS[form](LINES) + b"and something else"):
        (tmp_path / "in").write_bytes(data)
        with pytest.raises(TokurError, match=rf"in: the {form} data (cannot be unpacked|is cut short)"):
            outcomes(tmp_path / "in")


def test_open_input_says_why_a_file_cannot_be_opened(tmp_path, monkeypatch):
    for path, message in (("nowhere", "there is no such file"), (str(tmp_path), "is a directory"), ("a\0b", "null")):
        with pytest.raises(TokurError, match=message):
            open_input(path)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TokurError, match=r"<stdin>: standard input is closed"):
        open_input("-")


# --- arrays ---


class Trickle(io.RawIOBase):
    """Gives a few bytes at a time, so that every boundary falls somewhere."""

    def __init__(self, data, size):
        self.data, self.size = data, size

    def readable(self):
        return True

    def readinto(self, buffer):
        part, self.data = self.data[: self.size], self.data[self.size :]
        buffer[: len(part)] = part
        return len(part)


def elements_of(data, size=1, key=None, limit=MAX_LINE):
    return list(array_elements(io.BufferedReader(Trickle(data, size), 1), "in.json", key, limit))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],: \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\{]', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@calm
@given(st.lists(JSON_VALUES, max_size=5), st.sampled_from([None, 1]), st.integers(1, 7), st.sampled_from([9, MAX_LINE]))
def test_array_elements_are_those_of_json(values, indent, size, limit):
    elements = elements_of(json.dumps(values, indent=indent).encode(), size, limit=limit)
    texts = [json.dumps(value, indent=indent).replace("\n", "\n" + " " * (indent or 0)) for value in values]
    for value, text, (_, element) in zip(values, texts, elements, strict=True):
        assert element is None or json.loads(element) == value
        if element is None or limit == MAX_LINE:
            assert (element is None) == (limit == 9)
            assert element is not None or len(text) > 7  # what stands around it may count, too
    if indent and values:
        starts = [2]
        for text in texts[:-1]:
            starts.append(starts[-1] + text.count("\n") + 1)
        assert [line for line, _ in elements] == starts


@calm
@given(st.dictionaries(st.sampled_from(["a", "b", "samples"]), st.lists(JSON_VALUES, max_size=3)), st.integers(1, 7))
def test_array_elements_of_a_field(log, size):
    elements = elements_of(json.dumps(log).encode(), size, key="samples")
    assert [json.loads(element) for _, element in elements] == log.get("samples", [])


@pytest.mark.parametrize(
    ("text", "good", "message"),
    [
        (b'[{"a":1},\n{"b"', 1, "in.json:2: the JSON ends here, before the end of the array: the file is not complete"),
        (b"[1}", 1, "in.json:1: this is not valid JSON: , or ] should stand before '}'"),
        (b"[1]\n[2]", 1, "in.json:2: there is text after the end of the array"),
    ],
)
def test_array_elements_come_before_the_place_where_an_array_breaks(text, good, message):
    found, said = until_error(array_elements(io.BufferedReader(io.BytesIO(text)), "in.json"))
    assert (len(found), said) == (good, message)


def test_a_broken_element_is_an_error_in_its_place(tmp_path):
    (tmp_path / "in").write_text('[{"n":1}, {"n" 2}, {"n":3} 4, , {"n":5}]')
    assert [row if isinstance(row, dict) else row[0] for row in outcomes(tmp_path / "in")] == [
        {"n": 1}, "[1]", "[2]", "[3]", {"n": 5}
    ]  # fmt: skip


# --- limits ---


def row(number, size=0):
    bare = json.dumps({"n": number, "text": ""})
    return json.dumps({"n": number, "text": "x" * max(0, size - len(bare))})


ROWS = [row(1), row(2, LIMIT), row(3, LIMIT + 1), row(4), row(5, 200_000), row(6)]


def numbers(path, **options):
    return [found["n"] if isinstance(found, dict) else found for found in outcomes(path, **options)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd_compress])
def test_a_line_that_is_too_long_is_an_error_and_the_next_is_read(tmp_path, compress):
    (tmp_path / "in").write_bytes(compress("\n".join(ROWS).encode()))
    assert numbers(tmp_path / "in") == [1, 2, ("", 3, TOO_LONG), 4, ("", 5, TOO_LONG), 6]
    assert numbers(tmp_path / "in", max_line=1_000_000) == [1, 2, 3, 4, 5, 6]


def test_elements_samples_and_members_that_are_too_long_are_errors(tmp_path):
    """Also where 65,536 bytes, which are read at once, end in an escape."""
    (tmp_path / "in").write_text("[" + ",\n".join([*ROWS, '{"x": "' + "x" * 65_528 + '\\"]}"}', row(7)]) + "]")
    expected = [1, 2, ("[2]", 3, TOO_LONG), 4, ("[4]", 5, TOO_LONG), 6]
    assert numbers(tmp_path / "in") == [*expected, ("[6]", 7, TOO_LONG), 7]
    log = json.dumps({"version": 2, "status": "success", "eval": "y" * 200_000})[:-1]
    (tmp_path / "in").write_text(log + ', "samples": [' + ",\n".join(ROWS) + "]}")
    assert numbers(tmp_path / "in", format="tokur") == expected
    members = [1, 2, ("/samples/2.json", 1, TOO_LONG), 4, ("/samples/4.json", 1, TOO_LONG), 6]
    with zipfile.ZipFile(tmp_path / "in", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, text in enumerate(ROWS):
            archive.writestr(f"samples/{number}.json", text)
    assert numbers(tmp_path / "in") == members
    zstd_archive(tmp_path / "in", [(f"samples/{n}.json".encode(), text.encode()) for n, text in enumerate(ROWS)])
    assert numbers(tmp_path / "in") == members


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


def test_blank_lines_are_counted_and_bounded(tmp_path):
    (tmp_path / "in").write_bytes(b"{}\n" + b" \n" * 400_000 + b"{}\n")
    assert [record.line for record in read_records(str(tmp_path / "in"))] == [1, 400_002]
    (tmp_path / "in").write_bytes(gzip.compress(b"{}\n" + b"\n" * 1_000_001 + b"{}\n"))
    with pytest.raises(TokurError, match=r"in:1000002: holds more than 1 MB of blank lines in a row"):
        outcomes(tmp_path / "in", max_line=MAX_LINE)


def test_deep_nesting_is_an_error_of_its_record(tmp_path):
    (tmp_path / "in").write_text(f"{row(1)}\n" + '{"a":' * 100_000 + f"\n{row(3)}\n")
    assert numbers(tmp_path / "in", max_line=MAX_LINE) == [1, ("", 2, "is nested too deeply to be read"), 3]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zeros.zst", "zeros.gz", "array.zst", "spaces.zst", "zeros.eval"])
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
        part = b" " * len(block) if form == "spaces.zst" else block
        path.write_bytes(zstd_compress(begin) + zstd_compress(part) * 1024)
    code = textwrap.dedent("""
        import resource, sys
        from tokur_cli.records.errors import RecordError
        from tokur_cli.records.reader import read_records
        resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
        for item in read_records(sys.argv[1]):
            print(item.message)
    """)
    found = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    words = {"array.zst": "the file is not complete", "spaces.zst": "64 MB of white space in a row"}
    assert words.get(form, "is longer than 64 MB") in found.stdout + found.stderr


def test_records_import_nothing_heavy():
    code = textwrap.dedent("""
        import sys
        import tokur_cli.records.reader, tokur_cli.records.writer
        heavy = {"numpy", "torch", "sklearn", "rich", "transformers", "typer", "zstandard"} & set(sys.modules)
        ours = {name for name in sys.modules if name.startswith("tokur_cli.") and name.split(".")[1] != "records"}
        assert not heavy and not ours, heavy | ours
    """)
    subprocess.run([sys.executable, "-c", code], check=True)
