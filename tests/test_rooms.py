"""The rooms of the package import in one direction, and only the engine knows the heavy libraries."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "tokur_cli"
MIDDLE = {"engine", "scores", "answers", "selection", "metrics", "views"}
MAY_IMPORT = {
    "__init__": {"app"},
    "__main__": {"app"},
    "app": {"commands", "metrics", "records"},  # help says what the metrics are
    "commands": MIDDLE | {"records"},
    **{room: {"records"} for room in MIDDLE},
    "metrics": {"records", "selection"},  # the vote
    "records": set(),
}
HEAVY = {"torch", "transformers", "accelerate", "sentence_transformers", "peft"}


def imported(path: Path, *, types: bool = True) -> set[str]:
    """Return the modules that a file imports anywhere; without ``types``, not those that only its annotations need."""
    names, tree = set(), ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if types or ast.unparse(node).split(":")[0] != "if TYPE_CHECKING"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names.add(node.module or "")
    return names


def test_imports_go_one_way():
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        names = imported(path)
        rooms = {name.split(".")[1] for name in names if name.startswith("tokur_cli.")}
        assert rooms <= MAY_IMPORT[room] | {room}, path
        if room != "engine":
            assert not HEAVY & {name.split(".")[0] for name in names}, path


def test_imports_within_app_commands_and_records_make_no_circle():
    rooms = [path for room in ("app", "commands", "records") for path in (PACKAGE / room).rglob("*.py")]
    files = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in rooms}
    graph = {name.removesuffix(".__init__"): imported(path, types=False) for name, path in files.items()}
    TopologicalSorter({name: names & graph.keys() - {name} for name, names in graph.items()}).prepare()
