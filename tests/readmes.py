"""The READMEs and what stands beside them, taken apart: their blocks of shell commands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
READMES = sorted(path.relative_to(ROOT) for folder in ("samples", "tests") for path in (ROOT / folder).rglob("*.md"))
READMES = [Path("README.md"), Path("CHANGELOG.md"), *READMES]


def text_of(readme: Path) -> str:
    return (ROOT / readme).read_text(encoding="utf-8")


def blocks_of(readme: Path) -> list[list[str]]:
    """Return a README's blocks of shell commands, one a line: those that go on are joined, comments left out."""
    blocks = []
    for code in re.findall(r"^```sh\n(.*?)^```\n", text_of(readme), flags=re.MULTILINE | re.DOTALL):
        joined = re.sub(r"(\\|\|)\n\s*", lambda end: " " if end[1] == "\\" else "| ", code)
        lines = re.sub(r"(^|\s)# .*", "", joined, flags=re.MULTILINE).splitlines()
        blocks.append([line.strip() for line in lines if line.strip()])
    return blocks


def options_of(help_text: str) -> str:
    """Return the options of a command's ``--help``, by their groups, as the reference lists them."""
    groups: dict[str, list[str]] = {}
    for line in help_text.splitlines():
        if heading := re.fullmatch(r"([A-Z][^:]*):", line):
            name = heading[1]
        elif re.match(r"  -", line):
            flags = re.findall(r"--[a-z][\w-]*", re.split(r"\s{2,}", line.strip())[0])
            groups.setdefault(name, []).extend(f"`{flag}`" for flag in flags)
    return "; ".join(f"{name.lower()} {' '.join(flags)}" for name, flags in groups.items())
