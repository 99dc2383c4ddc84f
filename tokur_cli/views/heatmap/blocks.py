"""Blocks of styled lines for the terminal, laid out in full, so that rich neither wraps nor reads model text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from tokur_cli.views.visible import picture, width_of

GUTTER = " │ "
_DIM = Style(dim=True)


@dataclass
class StyledLine:
    """One line of the terminal, with the columns that it takes so far."""

    segments: list[Segment] = field(default_factory=list)
    width: int = 0

    def add(self, text: str, style: Style | None = None, width: int | None = None) -> StyledLine:
        """Append a picture and return the line.

        Args:
            text: what to draw; holds no control codes.
            style: its style, None for the terminal's own.
            width: its columns, if they are known.
        """
        if text:
            self.segments.append(Segment(text, style))
            self.width += width_of(text) if width is None else width
        return self

    def join(self, other: StyledLine) -> StyledLine:
        """Append what another line holds and return this one."""
        self.segments.extend(other.segments)
        self.width += other.width
        return self

    def pad_to(self, width: int, fill: str = " ", style: Style | None = None) -> StyledLine:
        """Append a one-column filling up to a width and return the line."""
        return self.add(fill * (width - self.width), style, max(0, width - self.width))


@dataclass
class Block:
    """Lines below one another: something that a rich console prints."""

    lines: list[StyledLine] = field(default_factory=list)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines:
            yield from line.segments
            yield Segment.line()

    @property
    def width(self) -> int:
        """The columns of the longest line."""
        return max((line.width for line in self.lines), default=0)


def below(blocks: Sequence[Block], gap: int = 0) -> Block:
    """Return blocks under one another, with a number of empty lines between."""
    lines: list[StyledLine] = []
    for block in blocks:
        if lines and block.lines:
            lines.extend(StyledLine() for _ in range(gap))
        lines.extend(block.lines)
    return Block(lines)


def beside(blocks: Sequence[Block], width: int) -> Block:
    """Return blocks side by side, from left to right, each in as many columns: at least its own width."""
    lines = []
    for index in range(max(len(block.lines) for block in blocks)):
        line = StyledLine()
        for place, block in enumerate(blocks):
            if place:
                line.pad_to(place * (width + len(GUTTER)) - len(GUTTER)).add(GUTTER, _DIM)
            if index < len(block.lines):
                line.join(block.lines[index])
        lines.append(line)
    return Block(lines)


def flow(pieces: Sequence[str], width: int, style: Style | None = None, between: str = "  ") -> Block:
    """Return short texts one after the other, broken between them; one that is longer than a line is broken anywhere.

    Args:
        pieces: the texts; control codes are drawn as pictures.
        width: columns.
        style: the style of all.
        between: what separates two texts on a line.
    """
    lines = [StyledLine()]
    for piece in pieces:
        text = picture(piece)
        columns = width_of(text)
        joint = between if lines[-1].width else ""
        if joint and lines[-1].width + len(joint) + columns > width:
            lines.append(StyledLine())
            joint = ""
        lines[-1].add(joint, style)
        for part in _cut(text, width):
            if lines[-1].width and lines[-1].width + width_of(part) > width:
                lines.append(StyledLine())
            lines[-1].add(part, style)
    return Block(lines)


def _cut(text: str, width: int) -> list[str]:
    if width_of(text) <= width:
        return [text]
    parts, columns = [""], 0
    for char in text:
        if columns + width_of(char) > width:
            parts.append("")
            columns = 0
        parts[-1] += char
        columns += width_of(char)
    return parts
