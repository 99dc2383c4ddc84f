"""Reading rows in a few words."""

import json
import sys
from pathlib import Path

from tokur_cli.records.errors import RecordError
from tokur_cli.records.reader import read_records

if sys.version_info >= (3, 14):
    import zipfile

    from compression import zstd
else:
    from backports import zstd
    from backports.zstd import zipfile

zstd_compress = zstd.compress
DATA = Path(__file__).parents[1] / "data" / "formats"
ASKED = [{"role": "user", "content": "3+4?"}]
BODY = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "7"}, "finish_reason": "stop"}]}


def requests_of(name):
    path = DATA / name.replace(".", "_requests.")
    return str(path) if path.exists() else None


def zstd_archive(path, mode="r"):
    """A zip archive with members as Inspect packs them."""
    return zipfile.ZipFile(path, mode, zipfile.ZIP_ZSTANDARD)


def read(name, **options):
    return list(read_records(str(DATA / name), **options))


def read_rows(tmp_path, *rows, **options):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return list(read_records(str(path), **options))


def read_row(tmp_path, row, **options):
    (record,) = read_rows(tmp_path, row, **options)
    return record


def message_of(error):
    assert isinstance(error, RecordError), error
    return error.message


def paths_in(value, path=()):
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from paths_in(item, (*path, key))


def changed(value, path, odd):
    """The value with another one at the path, or without what is there if that is ``...``."""
    if not path:
        return odd
    copy = value.copy()
    if odd is ... and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], odd)
    return copy
