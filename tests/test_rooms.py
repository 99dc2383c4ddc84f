"""The rooms of the package import in one direction, and only the engine knows the heavy libraries."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tokur_cli"
MIDDLE = {"engine", "scores", "answers", "selection", "metrics", "views"}
MAY_IMPORT = {
    "app": {"commands", "records"},
    "commands": MIDDLE | {"records"},
    **{room: {"records"} for room in MIDDLE},
    "records": set(),
}
HEAVY = {"torch", "transformers", "accelerate", "sentence_transformers"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("tokur_cli.")}
    assert ours <= MAY_IMPORT[room] | {room}
    if room != "engine":
        assert not HEAVY & {name.split(".")[0] for name in imported(path)}


def test_every_room_is_known():
    assert {room_of(path) for path in MODULES} <= {*MAY_IMPORT, "__init__", "__main__"}
