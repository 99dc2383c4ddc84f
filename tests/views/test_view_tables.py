"""Tables of figures: aligned, marked, a line a row in a file, wrapped on a narrow terminal."""

import io
import textwrap

from rich.console import Console

from tokur_cli.views.tables import Cell, Column, Row, Table, print_table


def figure(value, aside=""):
    return Cell(f"{100 * value:.2f}", aside)


TABLE = Table(
    "Metrics [%]",
    "score",
    [Column("AUROC ↑", "higher"), Column("records"), Column("ECE ↓", "lower")],
    [
        Row("no score", [Cell("–"), Cell("1,000"), figure(0.4)], competes=False),
        Row("eu", [figure(1.0, "[98.0, 100.0]"), Cell("12"), figure(0.071)]),
        Row("不确定性", [figure(0.605, "[5.1, 75.0]"), Cell("1,000"), figure(0.05)]),
    ],
    ["a note"],
)


def printed(width, **options):
    out = io.StringIO()
    print_table(TABLE, Console(file=out, width=width, highlight=False, markup=False, emoji=False, **options))
    return out.getvalue()


def test_print_table_aligns_figures_and_intervals_whatever_the_width_of_a_file():
    for width in (30, 80):
        text = "\n".join(line.rstrip() for line in printed(width).splitlines())
        assert text.split("a note")[0] == textwrap.dedent("""\
            Metrics [%]
            score     AUROC ↑               records  ECE ↓
            no score       –                  1,000  40.00
            eu        100.00 [98.0, 100.0]       12   7.10
            不确定性   60.50   [5.1, 75.0]    1,000   5.00
        """)


def test_print_table_wraps_on_a_narrow_terminal_and_loses_nothing():
    text = printed(36, force_terminal=True, color_system=None)
    assert max(map(len, text.splitlines())) <= 36
    for piece in ("100.00", "[98.0,", "100.0]", "不确定性", "60.50", "5.00"):
        assert piece in text


def test_print_table_marks_the_best_and_the_second_of_each_column():
    text = printed(80, force_terminal=True, color_system="standard")
    for mark in ("1m100.00", "4m60.50", "1m5.00", "4m7.10"):
        assert f"\x1b[{mark}\x1b[0m" in text
    assert "40.00\x1b" not in text
