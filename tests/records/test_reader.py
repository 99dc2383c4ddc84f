"""Bytes come in from wherever they are, as lines, an array's elements or a table's rows."""

import datetime
import decimal
import gzip
import io
import json
import os
import random
import subprocess
import sys
import textwrap
import zipfile

import pyarrow
import pyarrow.ipc
import pytest
import reasoning_gym
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.helpers import write_lines
from tests.records.reading import DATA, message_of, zstd_archive, zstd_compress
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.reader import read_records
from tokur_cli.records.streams import elements, lines, open_input

calm = settings(derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
LINES = b'\xef\xbb\xbf{"a":1}\n{"b":"\xe2\x80\xa8"}\r\n\n  \n{"c":3}'
NOTE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"
FORMS = {
    "plain": LINES,
    "gzip of several members": gzip.compress(LINES[:5]) + gzip.compress(LINES[5:]) + b"\0" * 100,
    "zstd of several frames": NOTE + zstd_compress(LINES[:5]) + zstd_compress(LINES[5:]) + NOTE,
}
LIMIT = 1000
TOO_LONG = "is longer than 0.001 MB: raise --set max_line to read it"


def outcomes(path, **options):
    """Return each row's n, or (source, line, message) of its error."""
    return [
        (item.source.rpartition("/in")[2], item.line, item.message) if isinstance(item, RecordError) else item.get("n")
        for item in read_records(str(path), **{"max_line": LIMIT, **options})
    ]


@pytest.mark.parametrize("form", FORMS)
def test_open_input_reads_files_and_standard_input_in_every_form(form, tmp_path, monkeypatch):
    (tmp_path / "in").write_bytes(FORMS[form])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FORMS[form])))
    for path in (str(tmp_path / "in"), "-"):
        records = [(record.line, record.fields) for record in read_records(path)]
        assert records == [(1, {"a": 1}), (2, {"b": "\u2028"}), (5, {"c": 3})]


@calm
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b" ", b"\t", b"\xe2\x80\xa8", b"\x85", b"\x0b", b"\x00"])))
def test_lines_split_at_line_feeds_alone_and_are_not_blank(parts):
    data = b"".join(parts)
    found = [(number, line) for _, number, line in lines(io.BytesIO(data), "in")]
    assert found == [(n, line.rstrip()) for n, line in enumerate(data.split(b"\n"), start=1) if line.strip()]


@pytest.mark.parametrize("compress", [gzip.compress, zstd_compress])
def test_open_input_delivers_what_comes_before_a_cut_archives_end(compress, tmp_path):
    lines = [json.dumps({"n": n, "noise": os.urandom(40).hex()}).encode() for n in range(3000)]
    archive = compress(b"\n".join(lines))
    (tmp_path / "in").write_bytes(archive[: len(archive) // 2])
    items, found = read_records(str(tmp_path / "in")), []
    with pytest.raises(TokurError, match="data is damaged or cut short: "):
        found.extend(item.get("n") for item in items)
    assert 1000 < len(found) < 2000
    elements = [json.dumps({"n": random.Random(n).randbytes(150_000).hex()}) for n in range(12)]
    archive = compress(f"[{','.join(elements)}]".encode())
    (tmp_path / "in").write_bytes(archive[: len(archive) * 9 // 10])
    items, found = read_records(str(tmp_path / "in")), []
    with pytest.raises(TokurError, match="cut short"):
        found.extend(json.dumps(item.fields) for item in items)
    assert found == elements[:10]
    (tmp_path / "in").write_bytes(compress(LINES) + b"and something else")
    with pytest.raises(TokurError, match=r"in: the \w+ data is damaged or cut short: "):
        outcomes(tmp_path / "in")


def test_open_input_says_why_a_file_cannot_be_opened(tmp_path, monkeypatch):
    wide = tmp_path / "wide.jsonl"
    wide.write_text("{}", encoding="utf-16")
    failures = {"nowhere": "nowhere: cannot be read: No such file", tmp_path: "Is a directory", wide: "is in UTF-16"}
    for path, message in failures.items():
        with pytest.raises(TokurError, match=message), open_input(str(path)):
            pass
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TokurError, match=r"<stdin>: standard input is closed"), open_input("-"):
        pass


# --- arrays and limits ---


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


def elements_of(data, size=1, within=(None,)):
    found = elements(io.BufferedReader(Trickle(data, size), 1), "in.json", within)
    return [(name.removeprefix("in.json[").removesuffix("]"), text) for name, _, text in found]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],: \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\{]', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@calm
@given(st.lists(JSON_VALUES, max_size=5), st.sampled_from([None, 1]), st.integers(1, 7))
def test_elements_are_those_of_json(values, indent, size):
    found = elements_of(json.dumps(values, indent=indent).encode(), size)
    assert [json.loads(text) for _, text in found] == values
    assert [label for label, _ in found] == [str(index) for index in range(len(values))]
    of_object = elements_of(json.dumps(dict(enumerate(values)), indent=indent).encode(), size)
    assert [json.loads(text) for _, text in of_object] == values
    log = json.dumps({"a": values, "samples": values, "b": 1}).encode()
    assert [json.loads(text) for _, text in elements_of(log, size, (None, "samples"))] == values
    objects = [json.dumps({"k": value}, indent=indent) for value in values]  # as jq writes them
    found = elements_of("\n".join(objects).encode(), size, ())
    assert [json.loads(text) for _, text in found] == [{"k": value} for value in values]


def test_elements_of_a_truncated_or_broken_array_are_those_that_are_whole(tmp_path):
    rows = [json.dumps({"n": n}, indent=1) for n in range(3)]
    for text, head, said in (
        ("[" + ",\n".join(rows), [0, 1], "in:7: what begins here is not valid JSON, cut short or longer than 64 MB"),
        ('[{"n": 1},\n{"n": tru},\n{"n": 3}]', [1], "in:2: what begins here is not valid JSON"),
        ('[{"n": 1},\n{"n": 2} {"n": 3}]', [1], "in:2: what begins here is not valid JSON"),
        ("[" + ",".join(rows) + "] x", [0, 1, 2], "text after the end"),
        ("[" + rows[0] + "]\n[" + rows[1] + "]", [0], "text after the end"),
    ):
        (tmp_path / "in").write_text(text)
        items, found = read_records(str(tmp_path / "in")), []
        with pytest.raises(TokurError, match=said):
            found.extend(item.get("n") for item in items)
        assert found == head


def row(n, size=9):
    return json.dumps({"n": n, "x": ""})[:-2] + "x" * (size - len(json.dumps({"n": n, "x": ""}))) + '"}'


ROWS = [row(1), row(2, LIMIT), row(3, LIMIT + 1), row(4), row(5, 200_000), row(6)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd_compress])
def test_read_records_makes_an_error_of_a_row_that_is_too_long(tmp_path, compress):
    (tmp_path / "in").write_bytes(compress("\n".join(ROWS).encode()))
    assert outcomes(tmp_path / "in") == [1, 2, ("", 3, TOO_LONG), 4, ("", 5, TOO_LONG), 6]
    (tmp_path / "in").write_bytes(compress(("[" + ",\n".join(ROWS) + "]").encode()))
    items = read_records(str(tmp_path / "in"), max_line=LIMIT)
    assert [getattr(next(items), "message", None) for _ in range(4)] == [None, None, TOO_LONG, None]
    with pytest.raises(TokurError, match=r"in:5: what begins here .* longer than 0\.001 MB"):
        next(items)


def test_read_records_of_an_inspect_archive_bounds_and_checks_its_members(tmp_path):
    path = tmp_path / "in"
    with zstd_archive(path, "w") as archive:
        for n, text in enumerate(ROWS):
            archive.writestr(f"samples/{n}.json", text)
    too_long = [(f"/samples/{n}.json", 1, TOO_LONG) for n in (2, 4)]
    assert outcomes(path, format="tokur") == [1, 2, too_long[0], 4, too_long[1], 6]
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 24] -= 5  # shorter than it is
    path.write_bytes(data)
    with pytest.raises(TokurError, match=r"in: is not an Inspect log that can be read: Bad CRC-32"):
        outcomes(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("records.jsonl", b'{"question": "1 + 1?"}\n')
    with pytest.raises(TokurError, match="it is a zip archive of something else"):
        outcomes(path)
    path.write_bytes((DATA / "inspect.eval").read_bytes()[:-30])
    with pytest.raises(TokurError, match="is not an Inspect log that can be read"):
        outcomes(path)


# --- tables, data sets, tasks ---

GSM8K = [{"question": f"What is {n} + {n}?", "answer": f"It is {2 * n}.\n#### {2 * n}"} for n in range(600)]


def fields_of(name, **options):
    return [record.fields for record in read_records(str(name), **options)]


def test_tables_and_data_sets_give_the_records_that_lines_give(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets

    lines = fields_of(write_lines(tmp_path / "rows.jsonl", GSM8K))
    table = pyarrow.Table.from_pylist(GSM8K)
    (tmp_path / "set").mkdir()
    parquet.write_table(table, tmp_path / "set" / "train.parquet")
    for form, new in (("stream", pyarrow.ipc.new_stream), ("file", pyarrow.ipc.new_file)):
        with new(tmp_path / f"{form}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=250)
    whole = datasets.Dataset.from_list(GSM8K)
    datasets.DatasetDict({"train": whole.select(range(3)), "test": whole}).save_to_disk(str(tmp_path / "saved"))
    for name in ("set/train.parquet", "stream.arrow", "file.arrow"):
        assert fields_of(tmp_path / name) == lines
    for name in ("saved:test", "set:train", "set"):
        records = list(read_records(f"hf:{tmp_path / name}"))
        assert [record.fields for record in records] == lines
        assert [record.line for record in records] == list(range(1, 601))
    assert fields_of(tmp_path / "saved" / "train") == lines[:3]
    for part, expected in (("[:2]", lines[:2]), ("[598:]", lines[598:]), ("[7:5]", [])):
        assert fields_of(f"hf:{tmp_path / 'saved'}:test{part}") == expected
    with pytest.raises(UsageError, match=r"name a split, such as hf:DATA:train; there are: train, test"):
        fields_of(f"hf:{tmp_path / 'saved'}")
    with pytest.raises(TokurError, match="Couldn't find any data file at /nowhere"):
        fields_of("hf:/nowhere:train")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"x" * 50)
    with pytest.raises(TokurError, match=r"broken\.parquet: cannot be read: "):
        fields_of(tmp_path / "broken.parquet")
    monkeypatch.setattr(datasets, "load_dataset", lambda *name, **_: {", ".join(name): whole.to_iterable_dataset()})
    assert fields_of("hf:openai/gsm8k/main:openai/gsm8k, main") == lines


def test_parquet_rows_keep_their_types_and_say_what_json_cannot(tmp_path):
    row = {"question": b"Why?", "price": decimal.Decimal("1.5"), "at": datetime.datetime(2026, 1, 2), "x": {"y": None}}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "rows.parquet")
    assert fields_of(tmp_path / "rows.parquet") == [
        {"question": "Why?", "price": 1.5, "at": "2026-01-02T00:00:00", "x": {"y": None}}
    ]


def test_csv_cells_are_text_but_for_labels(tmp_path):
    text = '\ufeff,id,question,correct\r\n0,007,"a\nb, ""c""",True\r\n1,008,d,\r\n\r\n2,9\r\n'
    for name, data in (("in.csv", text.encode()), ("in.tsv.gz", gzip.compress(text.replace(",", "\t").encode()))):
        (tmp_path / name).write_bytes(data)
        first, second, bad = read_records(str(tmp_path / name))
        assert (first.id, first.get("index"), first.get("correct"), first.line) == ("007", "0", True, 2)
        assert (second.fields["correct"], second.line, bad.line) == (None, 4, 6)
        assert message_of(bad) == "has 2 cells, but the first row has 4"
    (tmp_path / "LATIN.CSV").write_bytes(b"question;response\n2, 3?;5\ncaf\xe9?;5\n2+4?;6\n")
    _, bad, good = read_records(str(tmp_path / "LATIN.CSV"))
    assert good.response == "6"
    with pytest.raises(RecordError, match=r"LATIN.CSV:3: .* is no UTF-8 at character 4"):
        bad.text("question")
    for content, message in (
        (b'id,question\n1,"a', ":2: is not CSV: unexpected end of data"),
        (b"id,id\n1,2\n", ":1: the first row names the columns"),
        (b"id,question\n1," + b"x" * 100, ":2: is not CSV: field larger than field limit"),
    ):
        (tmp_path / "in.csv").write_bytes(content)
        with pytest.raises(TokurError) as raised:
            fields_of(tmp_path / "in.csv", max_line=50)
        assert str(raised.value).startswith(f"{tmp_path / 'in.csv'}{message}")


def test_gym_tasks_are_those_that_their_library_makes():
    rows = reasoning_gym.create_dataset("leg_counting", size=3, seed=4, min_animals=2)
    found = list(read_records("gym:leg_counting?size=3&seed=4&min_animals=2"))
    for index, (record, made) in enumerate(zip(found, rows, strict=True)):
        assert (record.prompt.question, record.reference) == (made["question"], made["answer"])
        assert record.id == f"leg_counting-seed=4-min_animals=2-{index}"
    for name in ("gym:leg_countin", "gym:leg_counting?size", "gym:leg_counting?legs=4"):
        with pytest.raises(UsageError, match=r"did you mean leg_counting|cannot be made so"):
            list(read_records(name))


# --- what reading costs ---


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zeros.zst", "zeros.gz", "array.zst", "zeros.eval"])
def test_memory_is_bounded_whatever_an_archive_swells_to(tmp_path, form):
    """A gigabyte, read by a process that may have 0.7."""
    path, block = tmp_path / form, bytes(1 << 20)
    if form == "zeros.gz":
        path.write_bytes(gzip.compress(bytes(128 << 20), 1) * 8)
    elif form == "zeros.eval":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("samples/1.json", bytes(128 << 20))
    else:
        path.write_bytes(zstd_compress(b'[{"a":"' if form == "array.zst" else b"") + zstd_compress(block) * 1024)
    code = textwrap.dedent("""
        import resource, sys
        from tokur_cli.records.reader import read_records
        resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
        for item in read_records(sys.argv[1]):
            print(item.message)
    """)
    found = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "longer than 64 MB" in found.stdout + found.stderr
