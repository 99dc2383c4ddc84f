"""Tables of figures: on a terminal, in LaTeX with booktabs, the best figure of a column bold, the second underlined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Literal

from wcwidth import wcswidth

from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from rich.console import Console

Better = Literal["higher", "lower"]
Mark = Literal["", "best", "second"]

MISSING = "–"
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
class Cell:
    """A figure as it is shown, and its interval or standard deviation beside it."""

    text: str
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``better`` says which figures are the better ones, None where nothing is marked."""

    title: str
    better: Better | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name, its cells, and whether it takes part in best and second."""

    name: str
    cells: Sequence[Cell]
    competes: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures."""

    title: str
    head: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def marks(self, place: int) -> list[Mark]:
        """Return the best and second-best cells of a column: what is shown alike is marked alike."""
        better = self.columns[place].better
        shown = [row.cells[place].text if better and row.competes else MISSING for row in self.rows]
        ranked = sorted({float(text) for text in shown if text != MISSING}, reverse=better == "higher")
        marks: dict[float, Mark] = {ranked[0]: "best", ranked[1]: "second"} if len(ranked) > 1 else {}
        return ["" if text == MISSING else marks.get(float(text), "") for text in shown]


@contextmanager
def table_console(file: IO[str]) -> Iterator[Console]:
    """Give a console for tables whose lines go to a file without the blanks that rich pads the last column with."""
    from rich.console import Console

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    with console.capture() as printed:
        yield console
    file.writelines(line.rstrip() + "\n" for line in printed.get().splitlines())


def print_table(table: Table, console: Console) -> None:
    """Print a table: cells wrap on a narrow terminal, and a file has a line a row."""
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column(picture(table.head), no_wrap=True)
    columns: list[list[Text]] = [[Text(picture(row.name)) for row in table.rows]]
    styles = {"": "", "best": "bold", "second": "underline"}
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        title, widest = picture(column.title), max((wcswidth(cell.aside) for cell in cells), default=0)
        room = widest + 1 if widest else 0
        figures = max([wcswidth(title) - room, *(wcswidth(picture(cell.text)) for cell in cells)])
        grid.add_column(title.rjust(figures), overflow="fold")
        columns.append([])
        for cell, mark in zip(cells, table.marks(place), strict=True):
            shown = picture(cell.text)
            text = Text(" " * (figures - wcswidth(shown))).append(shown, styles[mark])
            columns[-1].append(text.append(f" {cell.aside:>{widest}}", "dim") if cell.aside else text)
    for texts in zip(*columns, strict=True):
        grid.add_row(*texts)
    if not console.is_terminal:
        grid.width = console.measure(grid, options=console.options.update(width=10_000)).maximum
    console.print(Text(picture(table.title), style="bold"), soft_wrap=True)
    console.print(grid, crop=False)
    for note in table.notes:
        console.print(Text(picture(note), style="dim"))
    console.print()


def latex(table: Table) -> str:
    r"""Return the table as a LaTeX ``tabular`` for booktabs and amsmath, its title and notes as comments."""
    titles = [table.head, *(column.title for column in table.columns)]
    lines = [f"% {picture(table.title)}", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
    lines += [" & ".join(map(_escaped, titles)) + r" \\", r"\midrule"]
    marks = [table.marks(place) for place in range(len(table.columns))]
    for number, row in enumerate(table.rows):
        cells = [_latex_cell(cell, of_column[number]) for cell, of_column in zip(row.cells, marks, strict=True)]
        lines.append(" & ".join([_escaped(row.name), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", *(f"% {picture(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell, mark: str) -> str:
    command = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}.get(mark, "%s")
    aside = cell.aside.replace("±", r"\pm ")
    return command % _escaped(cell.text) + (rf"{{\scriptsize ${aside}$}}" if aside else "")


def _escaped(text: str) -> str:
    return picture(text).translate(_LATEX)
