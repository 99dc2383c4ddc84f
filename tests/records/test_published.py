"""Data sets, tasks and tables are read as lines are: the same records, with the numbers of their rows in errors."""

import csv
import datetime
import decimal
import gzip
import json
import subprocess
import sys

import pyarrow
import pyarrow.ipc
import pytest
import reasoning_gym
from pyarrow import parquet

from tests.records.reading import message_of
from tests.records.test_evaluation_logs import zstd_compress
from tokur_cli.records.errors import TokurError
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.reader import read_records

GSM8K = [{"question": f"What is {n} + {n}?", "answer": f"It is {2 * n}.\n#### {2 * n}"} for n in range(1000)]


def records(name, **options):
    return list(read_records(str(name), **options))


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data set with the splits train and test, of which test is longer than a batch of the library."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    write(tmp_path / "gsm8k" / "train-00000-of-00001.parquet", GSM8K[:3])
    write(tmp_path / "gsm8k" / "test-00000-of-00001.parquet", GSM8K)
    return tmp_path / "gsm8k"


def test_a_folder_gives_the_records_that_lines_give(folder, tmp_path):
    lines = records(write(tmp_path / "rows.jsonl", GSM8K))
    found = records(f"hf:{folder}:test")
    assert [record.fields for record in found] == [record.fields for record in lines]
    assert [record.line for record in found] == list(range(1, 1001))
    assert {record.source for record in found} == {f"hf:{folder}:test"}
    for part, expected in (("[:2]", lines[:2]), ("[998:]", lines[998:]), ("[5:7]", lines[5:7]), ("[7:5]", [])):
        assert [r.fields for r in records(f"hf:{folder}:test{part}")] == [r.fields for r in expected]


def test_rows_that_are_lists_are_read_by_the_numbers_of_their_parts(tmp_path):
    """As Open-Reasoner-Zero publishes its mathematics: one JSON array of conversations."""
    turns = [
        [
            {"from": "human", "value": f"What is {n} + {n}?"},
            {"from": "assistant", "ground_truth": {"value": f"{2 * n}"}},
        ]
        for n in range(3)
    ]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "collection.json").write_text(json.dumps(turns), encoding="utf-8")
    mapping = FieldMapping(question="0.value", reference="1.ground_truth.value")
    found = records(f"hf:{tmp_path / 'set'}:train", mapping=mapping)
    assert [(r.prompt.question, r.reference) for r in found] == [(f"What is {n} + {n}?", f"{2 * n}") for n in range(3)]


def test_reading_a_data_set_imports_no_torch(folder):
    code = (
        "import sys; from tokur_cli.records.reader import read_records; "
        f"list(read_records('hf:{folder}:test')); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"


def test_parquet_rows_keep_their_types_and_say_what_json_cannot(tmp_path):
    rows = [
        {"question": "a", "choices": ["u", "v"], "answer": 1, "when": datetime.date(2026, 1, 2), "x": None},
        {"question": "b", "choices": ["u", "v"], "answer": 7, "when": None, "x": {"y": 0.1}},
    ]
    first, second = records(write(tmp_path / "rows.parquet", rows))
    assert (first.reference, first.get("when"), first.get("x")) == ("B", "2026-01-02", None)
    assert str(second).startswith(f"{tmp_path / 'rows.parquet'}:2: ")
    assert '"answer" is 7' in message_of(second)
    row = {
        "question": b"Why?", "image": b"\xff\x00", "price": decimal.Decimal("1.5"), "count": decimal.Decimal(3),
        "took": datetime.timedelta(seconds=5), "at": datetime.datetime(2026, 1, 2, 3, 4),
    }  # fmt: skip
    (record,) = records(write(tmp_path / "bytes.parquet", [row]))
    told = {
        "question": "Why?",
        "image": "/wA=",
        "price": 1.5,
        "count": 3,
        "took": "0:00:05",
        "at": "2026-01-02T03:04:00",
    }
    assert record.fields == told
    columns = [pyarrow.array(["q"]), pyarrow.array(["r"]), pyarrow.array(["x"])]
    twice = pyarrow.table(columns, names=["question", "response", "response"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(TokurError, match="several of its columns have the same name"):
        records(tmp_path / "twice.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + b"x" * 50)
    with pytest.raises(TokurError, match=r"broken\.parquet: is not a Parquet file that can be read: "):
        records(tmp_path / "broken.parquet")


def test_csv_cells_are_text_but_for_labels(tmp_path):
    lines = (
        "id,question,reference,correct,quality",
        '007,"a\nb, ""c""",1.10,True,',
        "008,c,,FALSE,0.25",
        "",
        "9,d,x,,1",
        "",
    )
    text = "\ufeff" + "\r\n".join(lines)
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("rows.csv", "rows.csv.gz"):
        found = records(tmp_path / name)
        assert [list(record.fields.values()) for record in found] == [
            ["007", 'a\nb, "c"', "1.10", True, None],
            ["008", "c", None, False, 0.25],
            ["9", "d", "x", None, 1],
        ]
        assert [record.line for record in found] == [2, 4, 6]


def test_a_bad_row_of_csv_is_an_error_in_its_place_and_a_bad_file_ends_it(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,question\n1,a,more\n2,b\n3\n")
    first, second, third = records(path)
    assert [str(first), str(third)] == [
        f"{path}:2: has 3 cells, but the first row has 2",
        f"{path}:4: has 1 cells, but the first row has 2",
    ]
    assert second.id == "2"
    for content, message in (
        (b'id,question\n1,"a', ":2: is not CSV: unexpected end of data"),
        (b"id,id\n1,2\n", ":1: the first row names the columns"),
        (b"id,\n1,2\n", ":1: the first row names the columns"),
        (b"id,question\n1,\xe9\n", ": is not UTF-8: it holds the byte 0xe9"),
        (b"id,question\n1," + b"x" * 100, ":2: is not CSV: field larger than field limit"),
    ):
        path.write_bytes(content)
        with pytest.raises(TokurError) as raised:
            records(path, max_line=50)
        assert str(raised.value).startswith(f"{path}{message}")
    assert records(write(tmp_path / "empty.csv", [{"a": 1}]))[0].get("a") == "1"


@pytest.mark.parametrize("task", ["zebra_puzzles", "leg_counting", "color_cube_rotation"])
def test_tasks_are_those_that_their_library_makes(task):
    rows = reasoning_gym.create_dataset(task, size=3, seed=4)
    found = records(f"gym:{task}?size=3&seed=4")
    for index, (record, row) in enumerate(zip(found, rows, strict=True)):
        assert (record.prompt.question, record.reference) == (row["question"], row["answer"])
        assert record.get("metadata") == json.loads(json.dumps(row["metadata"]))
        assert record.id == f"{task}-seed=4-{index}"
    first = [record.fields for record in records(f"gym:{task}?size=1")]
    assert first == [record.fields for record in records(f"gym:{task}?size=1&seed=0")]


def test_the_configuration_of_a_task_is_typed_and_part_of_the_id():
    (record,) = records("gym:leg_counting?size=1&min_animals=2&max_animals=2")
    assert record.get("metadata")["num_animals"] == 2
    assert record.id == "leg_counting-seed=0-min_animals=2-max_animals=2-0"


# The bytes that pandas 3.1.1 writes by default: DataFrame({"id": ["007", "008"], …}).to_csv(path), here with correct =
# [True, False], and with sep="\t", and with .set_index([["x", "y"], [1, 2]])
PANDAS = {
    "rows.csv": b',id,question,correct\n0,007,"a\nb, ""c""",True\n1,008,d,False\n',
    "rows.tsv": b'\tid\tquestion\tcorrect\n0\t007\t"a\nb, ""c"""\tTrue\n1\t008\td\tFalse\n',
    "two.csv": b',,id,question,correct\nx,1,007,"a\nb, ""c""",True\ny,2,008,d,False\n',
}


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", PANDAS)
def test_what_pandas_writes_by_default_is_read(tmp_path, name, packed):
    compress = {"": bytes, ".gz": gzip.compress, ".zst": zstd_compress}[packed]
    path = tmp_path / (name + packed)
    path.write_bytes(compress(PANDAS[name]))
    found = records(path)
    index = ["level_0", "level_1"] if name == "two.csv" else ["index"]
    assert [list(record.fields) for record in found] == [[*index, "id", "question", "correct"]] * 2
    assert [record.get(index[0]) for record in found] == (["x", "y"] if name == "two.csv" else ["0", "1"])
    assert [(r.id, r.prompt.question, r.get("correct"), r.line) for r in found] == [
        ("007", 'a\nb, "c"', True, 2),
        ("008", "d", False, 4),
    ]


TYPED = [
    {"question": f"q{n}", "choices": ["u", "v"], "answer": n % 2, "when": datetime.date(2026, 1, 2), "x": None}
    for n in range(600)
]


@pytest.mark.parametrize("form", ["file", "stream", "compressed"])
def test_arrow_files_of_either_form_give_what_parquet_gives(tmp_path, form):
    expected = [record.fields for record in records(write(tmp_path / "rows.parquet", TYPED))]
    table = pyarrow.Table.from_pylist(TYPED)
    new = pyarrow.ipc.new_stream if form == "stream" else pyarrow.ipc.new_file
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd" if form == "compressed" else None)
    with new(tmp_path / "rows.arrow", table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=250)
    found = records(tmp_path / "rows.arrow")
    assert [record.fields for record in found] == expected
    assert [record.line for record in found] == list(range(1, 601))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """What ``save_to_disk`` wrote: a data set of two splits, and one that is none of several."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    import datasets

    whole = datasets.Dataset.from_list(GSM8K)
    one = whole.select(range(3))
    datasets.DatasetDict({"train": one, "test": whole}).save_to_disk(str(tmp_path / "splits"))
    whole.with_format("numpy", columns=["answer"]).select([5, 3]).save_to_disk(str(tmp_path / "one"))
    return tmp_path


def test_saved_data_sets_give_the_records_that_lines_give(saved):
    lines = [record.fields for record in records(write(saved / "rows.jsonl", GSM8K))]
    found = records(f"hf:{saved / 'splits'}:test")
    assert [record.fields for record in found] == lines
    assert [record.line for record in found] == list(range(1, 1001))
    for part, expected in (("[:2]", lines[:2]), ("[998:2000]", lines[998:]), ("[7:5]", [])):
        assert [record.fields for record in records(f"hf:{saved / 'splits'}:test{part}")] == expected
    for name in (saved / "one", f"hf:{saved / 'one'}", saved / "splits" / "train"):
        expected = lines[:3] if name == saved / "splits" / "train" else [lines[5], lines[3]]
        assert [record.fields for record in records(name)] == expected
    assert records(saved / "one")[0].source == str(saved / "one")
    (shard,) = (saved / "one").glob("*.arrow")
    assert [record.fields for record in records(shard)] == [lines[5], lines[3]]
