"""Tables of metrics: on a terminal, in LaTeX with booktabs, the best figure of a column bold, the second underlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Literal

from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

Better = Literal["higher", "lower"]

MISSING = "–"
_MARGIN = 2  # blanks between two columns
_LATEX = str.maketrans(
    {
        **{character: "\\" + character for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "[": "{[}",  # where a row begins with one, it would belong to the line break before
        "*": "$^*$",
        "Δ": r"$\Delta$",
        "±": r"$\pm$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        MISSING: "--",
    }
)


@dataclass(frozen=True, slots=True)
class Percentage:
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
        """Return its interval or its standard deviation; empty if there is none."""
        if self.value is None:
            return ""
        if self.std is not None:
            return f"±{100 * self.std:.2f}"
        if self.low is None or self.high is None:
            return ""
        return f"[{_rounded(self.low, decimals, self.signed)}, {_rounded(self.high, decimals, self.signed)}]"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        title: of it.
        better: which figures are the better ones; None where nothing is marked.
        belongs: whether it belongs to the column before it, and stays beside that one.
    """

    title: str
    better: Better | None = None
    belongs: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name, its cells (text is shown as it is), and whether it takes part in best and second."""

    name: str
    cells: Sequence[Percentage | str]
    competes: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures."""

    title: str
    head: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def marks(self) -> list[list[Literal["", "best", "second"]]]:
        """Return the best and second-best cells of each column as shown: what rounds alike is marked alike."""
        found: list[list[Literal["", "best", "second"]]] = [[""] * len(self.columns) for _ in self.rows]
        for place, column in enumerate(self.columns):
            if column.better is None:
                continue
            shown = {}
            for number, row in enumerate(self.rows):
                cell = row.cells[place]
                if row.competes and isinstance(cell, Percentage) and cell.value is not None:
                    shown[number] = float(cell.shown)
            ranked = sorted(set(shown.values()), reverse=column.better == "higher")
            for number, value in shown.items():
                if len(ranked) > 1 and value in ranked[:2]:
                    found[number][place] = "best" if value == ranked[0] else "second"
        return found


@contextmanager
def table_console(file: IO[str]) -> Iterator[Console]:
    """Give a console for tables whose lines go to a file without the blanks that rich pads the last column with."""
    from rich.console import Console

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    with console.capture() as printed:
        yield console
    file.writelines(line.rstrip() + "\n" for line in printed.get().splitlines())


def print_table(table: Table, console: Console) -> None:
    """Print a table on a terminal: with intervals to a tenth, to a whole percent if it fits then, else in parts."""
    from rich.text import Text

    table = _visible(table)
    end = len(table.columns)
    ends = [place for place in range(1, end + 1) if place == end or not table.columns[place].belongs]

    def fits(decimals: int, parts: Iterable[tuple[int, int]]) -> bool:
        return all(_width(_grid(table, decimals, *part), console) <= console.width for part in parts)

    whole, parts = [(0, end)], list(pairwise([0, *ends]))
    decimals = 1 if fits(1, whole) or (fits(1, parts) and not fits(0, whole)) else 0
    console.print(Text(table.title, style="bold"), soft_wrap=True)
    start = 0
    while ends:
        end = ends.pop(0)
        while ends and fits(decimals, [(start, ends[0])]):
            end = ends.pop(0)
        grid = _grid(table, decimals, start, end)
        grid.width = _width(grid, console)
        console.print(grid, crop=False)
        start = end
    for note in table.notes:
        console.print(Text(note, style="dim"))
    console.print()


def latex(table: Table) -> str:
    r"""Return the table as a LaTeX ``tabular`` for booktabs and amsmath, its title and notes as comments."""
    table = _visible(table)
    lines = [f"% {table.title}", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
    lines.append(" & ".join(_escaped(title) for title in (table.head, *(one.title for one in table.columns))) + r" \\")
    lines.append(r"\midrule")
    for row, marks in zip(table.rows, table.marks(), strict=True):
        cells = [_latex_cell(cell, mark) for cell, mark in zip(row.cells, marks, strict=True)]
        lines.append(" & ".join([_escaped(row.name), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Percentage | str, mark: str) -> str:
    if isinstance(cell, str):
        return _escaped(cell)
    if cell.value is None:
        return "--"
    aside = cell.aside(1).replace("±", r"\pm ")
    command = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}.get(mark, "%s")
    return command % cell.shown + (rf"{{\scriptsize ${aside}$}}" if aside else "")


def _escaped(text: str) -> str:
    return text.translate(_LATEX)


def _visible(table: Table) -> Table:
    """Return the table with every text as it is drawn: names come from records."""
    rows = [
        replace(row, name=picture(row.name), cells=[picture(c) if isinstance(c, str) else c for c in row.cells])
        for row in table.rows
    ]
    columns = [replace(column, title=picture(column.title)) for column in table.columns]
    return Table(picture(table.title), picture(table.head), columns, rows, list(map(picture, table.notes)))


def _rounded(value: float, decimals: int, signed: bool) -> str:
    rounded = round(100 * value, decimals) + 0.0  # -0.0 would show its sign
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}"


def _grid(table: Table, decimals: int, start: int, end: int) -> Grid:
    """Return the columns from ``start`` to ``end`` beside the names."""
    from rich.table import Table as Grid
    from rich.text import Text

    styles, marks = {"": "", "best": "bold", "second": "underline"}, table.marks()
    grid = Grid(box=None, pad_edge=False, padding=(0, 0, 0, _MARGIN), header_style="dim")
    grid.add_column(table.head, no_wrap=True)
    columns: list[list[Text]] = [[Text(row.name) for row in table.rows]]
    for place in range(start, end):
        cells = [row.cells[place] for row in table.rows]
        shown = [cell if isinstance(cell, str) else cell.shown for cell in cells]
        asides = ["" if isinstance(cell, str) else cell.aside(decimals) for cell in cells]
        title, widest = table.columns[place].title, max(map(len, asides), default=0)
        figures = max([*map(len, shown), len(title) - (widest + 1 if widest else 0)])
        grid.add_column(f"{title:>{figures}}", no_wrap=True)
        columns.append([])
        for figure, aside, mark in zip(shown, asides, marks, strict=True):
            text = Text(" " * (figures - len(figure))).append(figure, styles[mark[place]])
            columns[-1].append(text.append(f" {aside:>{widest}}", "dim") if aside else text)
    for cells_of_row in zip(*columns, strict=True):
        grid.add_row(*cells_of_row)
    return grid


def _width(grid: Grid, console: Console) -> int:
    return console.measure(grid, options=console.options.update(width=10_000)).maximum
