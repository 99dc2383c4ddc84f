"""The reader of tokur's own JSON files: every annotation that they use, by hand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tokur_cli.records.errors import TokurError
from tokur_cli.records.typed import read_json


@dataclass(frozen=True)
class Inner:
    rank: int
    sigma: float | None = 0.1


@dataclass(frozen=True)
class Outer:
    name: str
    how: Literal["a", "b"]
    points: tuple[tuple[float, float], ...] | None
    counts: Mapping[str, int]
    free: dict[str, Any]
    inner: Inner
    more: tuple[str, ...] = field(default_factory=tuple)
    schema: int = 2


WHOLE = {
    "name": "n", "how": "a", "points": [[1, 0.5]], "counts": {"x": 1}, "free": {"y": [None]},
    "inner": {"rank": 8, "sigma": None}, "more": ["z"], "schema": 1,
}  # fmt: skip


def read(tmp_path, text):
    (tmp_path / "own.json").write_text(text)
    return read_json(str(tmp_path / "own.json"), Outer, "tokur make -o own.json")


def test_read_json_builds_dataclasses_tuples_and_defaults(tmp_path):
    expected = Outer("n", "a", ((1, 0.5),), {"x": 1}, {"y": [None]}, Inner(8, None), ("z",), 1)
    assert read(tmp_path, json.dumps(WHOLE)) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 1}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"how": "c"}, r"'c' - at `\$\.how`"),
        ({"points": [[1, float("nan")]]}, "malformed"),
        ({"counts": {"x": True}}, "Expected `int`, got `bool`"),
        ({"inner": {}}, r"missing required field `rank` - at `\$\.inner`"),
        ({"no": 2}, '"no" is not one of its fields'),
        ({"schema": 3}, "has schema 3, and this tokur .* reads up to 2: update tokur"),
    ],
)
def test_read_json_names_the_field_that_is_not_what_it_must_be(change, said, tmp_path):
    with pytest.raises(TokurError, match=said):
        read(tmp_path, json.dumps(WHOLE | change))


@pytest.mark.parametrize("text", ["[]", '{"name": "n"', "[" * 100_000, "{}"])
def test_read_json_of_anything_else_names_the_file_and_the_command(text, tmp_path):
    with pytest.raises(TokurError, match=r"own\.json: .*; write it again with `tokur make -o own\.json`"):
        read(tmp_path, text)
