"""The READMEs and what stands beside them, taken apart: their blocks of code, each with what it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
READMES = sorted(path.relative_to(ROOT) for folder in ("samples", "tests") for path in (ROOT / folder).rglob("*.md"))
READMES = [Path("README.md"), Path("CHANGELOG.md"), *READMES]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Commands of a README, and what follows them as their output ("" where nothing does)."""

    commands: str
    printed: str

    def lines(self) -> list[str]:
        """Return the commands, one a line: those that go on over several lines are joined, comments left out."""
        joined = re.sub(r"(\\|\|)\n\s*", lambda end: " " if end[1] == "\\" else "| ", self.commands)
        return [
            line.strip() for line in re.sub(r"(^|\s)# .*", "", joined, flags=re.MULTILINE).splitlines() if line.strip()
        ]


def text_of(readme: Path) -> str:
    return (ROOT / readme).read_text(encoding="utf-8")


def blocks_of(readme: Path, of: str = "sh") -> list[Block]:
    """Return the blocks of shell commands (or of Python) of a README; an unnamed block after one is what it prints."""
    blocks, found = [], [(match[1], match[2]) for match in _BLOCK.finditer(text_of(readme))]
    for (language, code), (following, printed) in zip(found, [*found, ("none", "")][1:], strict=True):
        if language == of:
            blocks.append(Block(code, printed if following in ("", "json") else ""))
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
