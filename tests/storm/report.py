"""What was tried and what fell: a table, and a folder for what fell."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from pathlib import Path

COMMANDS = ("perturb", "generate", "score", "select", "evaluate", "heatmap")
KEPT = 3
"""Folders kept of one kind of fault."""


class Report:
    """Counts runs, and keeps the folders of those that fell.

    Args:
        folder: where these go.
        seed: the seed of the storm.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._tried: dict[str, Counter[str]] = defaultdict(Counter)
        self._fallen: Counter[str] = Counter()
        self._faults: dict[tuple[str, str, str], list[Path | None]] = defaultdict(list)
        self.most_bytes, self.most_seconds = 0, 0.0

    def add(self, kind: str, command: str, seconds: float = 0.0, memory_bytes: int = 0) -> None:
        """Count a run."""
        self._tried[kind][command] += 1
        self.most_seconds = max(self.most_seconds, seconds)
        self.most_bytes = max(self.most_bytes, memory_bytes)

    def fall(self, kind: str, command: str, faults: list[str], files: Path, shown: str) -> None:
        """Note a run that fell, and keep its folder with what repeats it."""
        self._fallen[kind] += 1
        kept: Path | None = None
        for fault in faults:
            places = self._faults[kind, command, re.sub(r"\d+", "N", fault)]
            if len(places) < KEPT:
                if kept is None:
                    kept = self._folder / files.name
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(files, kept, symlinks=True)
                    lines = [
                        shown,
                        "",
                        *faults,
                        "",
                        f"python -m tests.storm --seed {self._seed} --again {files.name}",
                        "",
                    ]
                    (kept / "REPEAT").write_text("\n".join(lines), encoding="utf-8", errors="backslashreplace")
                places.append(kept)
            else:
                places.append(None)

    @property
    def fell(self) -> bool:
        """Whether anything fell."""
        return bool(self._fallen)

    def lines(self) -> list[str]:
        """Return the table, and what fell."""
        rows = [("tried", *COMMANDS, "all", "fell")]
        for kind, counts in self._tried.items():
            cells = [f"{counts[command]:,}" if counts[command] else "" for command in COMMANDS]
            rows.append((kind, *cells, f"{counts.total():,}", str(self._fallen[kind])))
        total: Counter[str] = sum(self._tried.values(), Counter())
        sums = [f"{total[command]:,}" for command in COMMANDS]
        rows.append(("all", *sums, f"{total.total():,}", str(self._fallen.total())))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in rows
        ]
        lines += [
            "",
            f"slowest run {self.most_seconds:.1f} s, largest {self.most_bytes / 1e6:,.0f} MB with all modules",
        ]
        for (kind, command, fault), places in sorted(self._faults.items(), key=lambda item: -len(item[1])):
            lines.append(f"{len(places):5}  {kind}, {command}: {fault}")
            lines += [f"       {place}" for place in places if place is not None]
        return lines
