"""Tables of metrics: on a terminal, in LaTeX with booktabs, the best figure of a column bold, the second underlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Better = Literal["higher", "lower"]

MISSING = "–"
_MARGIN = 2  # columns between two columns of the table


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure as part of 1, shown as a percentage.

    Attributes:
        value: the figure; None where it is not defined.
        low: lower end of its interval.
        high: upper end.
        std: standard deviation.
        signed: whether it is a difference: a plus is shown.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    std: float | None = None
    signed: bool = False

    @property
    def shown(self) -> str:
        """The figure itself."""
        return MISSING if self.value is None else _rounded(self.value, 2, self.signed)

    def aside(self, decimals: int) -> str:
        """Its interval or its standard deviation; empty if there is none."""
        if self.value is None:
            return ""
        if self.std is not None:
            return f"±{100 * self.std:.2f}"
        if self.low is None or self.high is None:
            return ""
        return f"[{_rounded(self.low, decimals, self.signed)}, {_rounded(self.high, decimals, self.signed)}]"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and which figures are the better ones; None where nothing is marked."""

    title: str
    better: Better | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name, its cells (text is shown as it is), and whether it takes part in best and second."""

    name: str
    cells: Sequence[Cell | str]
    competes: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures.

    Attributes:
        title: what it shows.
        head: the title of the column of names.
        columns: the others.
        rows: one cell for each of these.
        notes: lines below it.
    """

    title: str
    head: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def marks(self) -> list[list[Literal["", "best", "second"]]]:
        """Which cells are the best and second best of their columns, as shown: what rounds alike is marked alike."""
        found: list[list[Literal["", "best", "second"]]] = [[""] * len(self.columns) for _ in self.rows]
        for place, column in enumerate(self.columns):
            if column.better is None:
                continue
            shown = {}
            for number, row in enumerate(self.rows):
                cell = row.cells[place]
                if row.competes and isinstance(cell, Cell) and cell.value is not None:
                    shown[number] = float(cell.shown)
            ranked = sorted(set(shown.values()), reverse=column.better == "higher")
            for number, value in shown.items():
                if len(ranked) > 1 and value in ranked[:2]:
                    found[number][place] = "best" if value == ranked[0] else "second"
        return found


def print_table(table: Table, console: Console) -> None:
    """Print a table on a terminal: with intervals to a tenth, to a whole percent if narrow, in parts if too wide."""
    from rich.text import Text

    for decimals in (1, 0):
        body = _body(table, decimals)
        if _width(table, body) <= console.width:
            break
    console.print(Text(table.title, style="bold"), soft_wrap=True)
    for start, end in _parts(table, body, console.width):
        console.print(_lines(table, body, start, end), soft_wrap=True)
    for note in table.notes:
        console.print(Text(note, style="dim"))
    console.print()


def latex(table: Table) -> str:
    r"""The table as a LaTeX ``tabular`` for the packages booktabs and amsmath, its title and notes as comments."""
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
    lines.append(" & ".join(_escaped(title) for title in (table.head, *(one.title for one in table.columns))) + r" \\")
    lines.append(r"\midrule")
    for row, marks in zip(table.rows, table.marks(), strict=True):
        cells = [_latex_cell(cell, mark) for cell, mark in zip(row.cells, marks, strict=True)]
        lines.append(" & ".join([_escaped(row.name), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell | str, mark: str) -> str:
    if isinstance(cell, str):
        return _escaped(cell)
    if cell.value is None:
        return "--"
    aside = cell.aside(1).replace("±", r"\pm ")
    command = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}.get(mark, "%s")
    return command % cell.shown + (rf"{{\scriptsize ${aside}$}}" if aside else "")


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, "\\" + character)
    return (
        text.replace("Δ", r"$\Delta$")
        .replace("±", r"$\pm$")
        .replace("*", "$^*$")
        .replace("↑", r"$\uparrow$")
        .replace("↓", r"$\downarrow$")
        .replace(MISSING, "--")
    )


def _rounded(value: float, decimals: int, signed: bool) -> str:
    rounded = round(100 * value, decimals) + 0.0  # -0.0 would show its sign
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}"


def _body(table: Table, decimals: int) -> list[list[tuple[str, str]]]:
    """The figure and the aside of each cell; figures and asides stand in columns of their own."""
    rows = []
    for row in table.rows:
        rows.append([(cell, "") if isinstance(cell, str) else (cell.shown, cell.aside(decimals)) for cell in row.cells])
    return rows


def _widths(table: Table, body: list[list[tuple[str, str]]], place: int) -> tuple[int, int]:
    """Widths of the figures and of the asides of a column."""
    figures = max((len(row[place][0]) for row in body), default=0)
    asides = max((len(row[place][1]) for row in body), default=0)
    return max(figures, len(table.columns[place].title) - (asides + 1 if asides else 0)), asides


def _column_width(table: Table, body: list[list[tuple[str, str]]], place: int) -> int:
    figures, asides = _widths(table, body, place)
    return figures + (asides + 1 if asides else 0) + _MARGIN


def _name_width(table: Table) -> int:
    return max(len(table.head), *(len(row.name) for row in table.rows)) if table.rows else len(table.head)


def _width(table: Table, body: list[list[tuple[str, str]]]) -> int:
    return _name_width(table) + sum(_column_width(table, body, place) for place in range(len(table.columns)))


def _parts(table: Table, body: list[list[tuple[str, str]]], width: int) -> list[tuple[int, int]]:
    """Runs of columns that fit beside the names, each of one column at least."""
    parts: list[tuple[int, int]] = []
    start, taken = 0, _name_width(table)
    for place in range(len(table.columns)):
        more = _column_width(table, body, place)
        if place > start and taken + more > width:
            parts.append((start, place))
            start, taken = place, _name_width(table)
        taken += more
    return [*parts, (start, len(table.columns))]


def _lines(table: Table, body: list[list[tuple[str, str]]], start: int, end: int) -> Text:
    """The columns from ``start`` to ``end`` beside the names."""
    from rich.text import Text

    styles = {"": "", "best": "bold", "second": "underline"}
    name_width, margin = _name_width(table), " " * _MARGIN
    widths = [_widths(table, body, place) for place in range(start, end)]
    head = Text(table.head.ljust(name_width), style="dim")
    for (figures, asides), column in zip(widths, table.columns[start:end], strict=True):
        head.append(margin + column.title.rjust(figures).ljust(figures + (asides + 1 if asides else 0)))
    lines = [head]
    for row, cells, marks in zip(table.rows, body, table.marks(), strict=True):
        line = Text(row.name.ljust(name_width))
        for (figures, asides), (shown, aside), mark in zip(widths, cells[start:end], marks[start:end], strict=True):
            line.append(margin + " " * (figures - len(shown)))
            line.append(shown, style=styles[mark])
            if asides:
                line.append(" " + aside.rjust(asides), style="dim")
        lines.append(line)
    return Text("\n").join(lines)
