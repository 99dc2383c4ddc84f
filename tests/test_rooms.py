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


@pytest.mark.parametrize(
    "name", ["ResponseTokenizer", "Decoder", "VllmDecoder", "VllmScorer", "load_posterior", "build_posterior"]
)
def test_commands_have_what_works_with_a_model_from_the_session_alone(name):
    """``score``, ``generate``, ``perturb`` and Python put the same parts together in one place."""

    def calls(path: Path) -> bool:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == name for node in nodes)

    outside = [path for path in MODULES if room_of(path) in ("app", "commands") and calls(path)]
    assert [path.relative_to(PACKAGE).as_posix() for path in outside] == ["commands/session/session.py"]
