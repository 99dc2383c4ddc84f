"""Bytes come in from wherever they are, as lines, without waiting for more than is there."""

import gzip
import io
import json
import os
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokur_cli.records.elements import array_elements, on_one_line, without_constants
from tokur_cli.records.errors import TokurError
from tokur_cli.records.streams import open_input, read_lines, seekable

if sys.version_info >= (3, 14):
    from compression.zstd import compress as zstd_compress
else:
    import zstandard

    def zstd_compress(data):
        return zstandard.ZstdCompressor().compress(data)


calm = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"

LINES = b'{"a":1}\n{"b":"\xe2\x80\xa8"}\r\n\n  \n{"c":3}'
NUMBERED = [(1, b'{"a":1}'), (2, b'{"b":"\xe2\x80\xa8"}'), (5, b'{"c":3}')]

FORMS = {
    "plain": LINES,
    "gzip": gzip.compress(LINES),
    "gzip of several members": gzip.compress(LINES[:5]) + gzip.compress(b"") + gzip.compress(LINES[5:]),
    "gzip with padding": gzip.compress(LINES) + b"\0" * 100,
    "zstd": zstd_compress(LINES),
    "zstd of several frames": zstd_compress(LINES[:5]) + zstd_compress(LINES[5:]),
    "zstd with skippable frames": SKIPPABLE_FRAME + zstd_compress(LINES) + SKIPPABLE_FRAME,
}


def numbered(stream):
    return ((number, line) for number, _, line in read_lines(stream, "in"))


def lines_of(path):
    with open_input(str(path)) as stream:
        return list(numbered(stream))


@pytest.mark.parametrize("form", FORMS)
def test_files_are_read_in_every_form(form, tmp_path):
    (tmp_path / "in").write_bytes(FORMS[form])
    assert lines_of(tmp_path / "in") == NUMBERED


@pytest.mark.parametrize("form", FORMS)
def test_standard_input_is_read_in_every_form_and_stays_open(form, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(FORMS[form]))
    monkeypatch.setattr("sys.stdin", stdin)
    assert lines_of("-") == NUMBERED
    assert not stdin.closed


@pytest.mark.parametrize("form", FORMS)
def test_bytes_can_be_read_out_of_order_in_every_form(form, tmp_path):
    (tmp_path / "in").write_bytes(FORMS[form])
    with open_input(str(tmp_path / "in")) as stream, seekable(stream, "in") as file:
        assert file.read() == LINES
        file.seek(3)
        assert file.read(2) == LINES[3:5]


@pytest.mark.parametrize("form", FORMS)
def test_a_slow_pipe_delivers_lines_as_they_come(form, monkeypatch):
    """The second line is sent only after the first was received, byte by byte."""
    compress = {"gzip": gzip.compress, "zstd": zstd_compress}.get(form.split()[0], bytes)
    receiver, sender = os.pipe()
    received = threading.Event()
    in_time = []

    def send():
        with open(sender, "wb", buffering=0) as pipe:
            for byte in compress(b'{"line":1}\n'):
                pipe.write(bytes([byte]))
            in_time.append(received.wait(10))
            pipe.write(compress(b'{"line":2}\n'))

    thread = threading.Thread(target=send)
    thread.start()
    with open(receiver, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with open_input("-") as stream:
            lines = numbered(stream)
            assert next(lines) == (1, b'{"line":1}')
            received.set()
            assert list(lines) == [(2, b'{"line":2}')]
    thread.join()
    assert in_time == [True]


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "in").write_bytes(b"")
    assert lines_of(tmp_path / "in") == []


def test_a_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "in").write_bytes(b'\xef\xbb\xbf{"a":1}\n\xef\xbb\xbf{}\n')
    assert lines_of(tmp_path / "in") == [(1, b'{"a":1}'), (2, b"\xef\xbb\xbf{}")]


@calm
@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b" ", b"\t", b"\xe2\x80\xa8", b"\x85", b"\x0b", b"\x0c", b"\x00"]))
)
def test_lines_are_split_at_line_feeds_alone(parts):
    data = b"".join(parts)
    expected = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        line = line[:-1] if line.endswith(b"\r") else line
        if line.strip(b" \t\r\x0b\x0c"):
            expected.append((number, line))
    assert list(numbered(io.BufferedReader(io.BytesIO(data)))) == expected


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_cut_archive_delivers_the_lines_before_the_cut(form, tmp_path):
    compress = {"gzip": gzip.compress, "zstd": zstd_compress}[form]
    lines = [json.dumps({"n": n, "noise": os.urandom(40).hex()}).encode() for n in range(3000)]
    archive = compress(b"\n".join(lines))
    (tmp_path / "in").write_bytes(archive[: len(archive) // 2])
    delivered = []

    def read_all():
        with open_input(str(tmp_path / "in")) as stream:
            delivered.extend(line for _, line in numbered(stream))

    with pytest.raises(TokurError, match=rf"in: the {form} data is cut short: the file is not complete"):
        read_all()
    assert 1000 < len(delivered) < 2000
    assert delivered == lines[: len(delivered)]


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_corrupt_archive_is_an_error_that_names_the_file(form, tmp_path):
    archive = bytearray({"gzip": gzip.compress, "zstd": zstd_compress}[form](LINES * 100))
    archive[len(archive) // 2] ^= 0xFF
    archive[-3] ^= 0xFF  # the checksum, which only gzip always has
    (tmp_path / "in").write_bytes(archive)
    with pytest.raises(TokurError, match=rf"in: the {form} data (cannot be unpacked|is cut short)"):
        lines_of(tmp_path / "in")
    (tmp_path / "in").write_bytes(FORMS[form] + b"and something else")
    with pytest.raises(TokurError, match=rf"in: the {form} data cannot be unpacked"):
        lines_of(tmp_path / "in")


def test_what_cannot_be_opened_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(TokurError, match=r"nowhere\.jsonl: there is no such file"):
        open_input("nowhere.jsonl")
    with pytest.raises(TokurError, match=r"is a directory: give a file in it"):
        open_input(str(tmp_path))
    with pytest.raises(TokurError, match=r"cannot be opened: embedded null byte"):
        open_input("a\0b")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TokurError, match=r"<stdin>: standard input is closed"):
        open_input("-")


def test_memory_does_not_grow_with_the_input(tmp_path):
    def peak_of(megabytes):
        path = tmp_path / "in.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(megabytes * 10):
                file.write(b'{"a":"' + b"x" * 99_990 + b'"}\n')
        tracemalloc.start()
        with open_input(str(path)) as stream:
            count = sum(1 for _ in read_lines(stream, "in"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == megabytes * 10
        return peak

    assert peak_of(40) < 1.5 * peak_of(4)


def test_a_line_of_ten_megabytes_is_read(tmp_path):
    (tmp_path / "in").write_bytes(b'{"a":"' + b"x" * 10_000_000 + b'"}\n{}\n')
    assert [len(line) for _, line in lines_of(tmp_path / "in")] == [10_000_008, 2]


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


def elements_of(data, size=1, key=None):
    return list(array_elements(io.BufferedReader(Trickle(data, size), 1), "in.json", key))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],: \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\{]', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@calm
@given(st.lists(JSON_VALUES, max_size=5), st.sampled_from([None, 1]), st.integers(1, 7))
def test_an_array_is_read_element_by_element(values, indent, size):
    text = json.dumps(values, indent=indent).encode()
    elements = elements_of(text, size)
    assert [json.loads(element) for _, element in elements] == values
    assert not any(b"\n" in element for _, element in elements)
    if indent and values:
        starts, depth = [], 2
        for value in values:
            starts.append(depth)
            depth += json.dumps(value, indent=indent).count("\n") + 1
        assert [line for line, _ in elements] == starts


@calm
@given(st.dictionaries(st.sampled_from(["a", "b", "samples"]), st.lists(JSON_VALUES, max_size=3)), st.integers(1, 7))
def test_the_array_of_a_field_is_read_element_by_element(log, size):
    elements = elements_of(json.dumps(log).encode(), size, key="samples")
    assert [json.loads(element) for _, element in elements] == log.get("samples", [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'[{"a":1},\n{"b"', "in.json:2: the JSON ends inside this element: the file is not complete"),
        (b'[{"a":1},\n', "in.json:2: the JSON ends here, before the end of the array: the file is not complete"),
        (b"[1, 2", "in.json:1: the JSON ends here, before the end of the array: the file is not complete"),
        (b"[1 2]", "in.json:1: this is not valid JSON: , or ] should stand before '2'"),
        (b"[1,\n,2]", "in.json:2: this is not valid JSON"),
        (b"[1,]", "in.json:1: this is not valid JSON"),
        (b"[1]\n[2]", "in.json:2: there is text after the end of the array"),
    ],
)
def test_a_broken_array_is_an_error_that_names_the_line(text, message):
    with pytest.raises(TokurError) as caught:
        elements_of(text)
    assert str(caught.value).startswith(message)


def test_an_array_needs_memory_for_one_element():
    data = b"[" + b",".join([b'{"a":"' + b"x" * 10_000 + b'"}'] * 3000) + b"]"
    stream = io.BufferedReader(io.BytesIO(data))
    tracemalloc.start()
    assert sum(1 for _ in array_elements(stream, "in.json")) == 3000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_strings_are_safe_when_text_is_put_on_one_line():
    assert on_one_line(b'{\r\n  "a": "NaN\\n \\" ",\n "b":1\n}') == b'{ "a": "NaN\\n \\" ", "b":1 }'
    assert without_constants(b'{"NaN": NaN, "b": [-Infinity, "Infinity"]}') == b'{"NaN": null, "b": [null, "Infinity"]}'


def test_records_import_nothing_heavy():
    code = textwrap.dedent("""
        import sys
        import tokur_cli.records.reader, tokur_cli.records.writer
        heavy = {"numpy", "torch", "sklearn", "rich", "transformers", "typer", "zstandard"} & set(sys.modules)
        ours = {name for name in sys.modules if name.startswith("tokur_cli.") and name.split(".")[1] != "records"}
        assert not heavy and not ours, heavy | ours
    """)
    subprocess.run([sys.executable, "-c", code], check=True)
