"""Tables of figures on a terminal: aligned, marked, in parts where the terminal is narrow."""

import io
import re
import textwrap

from rich.console import Console

from tokur_cli.views.tables import Column, Percentage, Row, Table, print_table

TABLE = Table(
    "Metrics [%]",
    "score",
    [Column("AUROC ↑", "higher"), Column("records"), Column("ECE ↓", "lower")],
    [
        Row("all records", ["–", "1,000", Percentage(0.4)], competes=False),
        Row("eu", [Percentage(1.0, 0.98, 1.0), "12", Percentage(0.071)]),
        Row("不确定性", [Percentage(0.605, 0.0512, 0.75), "1,000", Percentage(0.05)]),
    ],
    ["a note"],
)


def printed(width, table=TABLE, **options):
    out = io.StringIO()
    print_table(table, Console(file=out, width=width, highlight=False, markup=False, emoji=False, **options))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def expected(text):
    return textwrap.dedent(text).strip("\n") + "\n"


def test_figures_and_intervals_stand_below_each_other():
    assert printed(80) == expected("""
        Metrics [%]
        score        AUROC ↑               records  ECE ↓
        all records       –                  1,000  40.00
        eu           100.00 [98.0, 100.0]       12   7.10
        不确定性      60.50   [5.1, 75.0]    1,000   5.00
        a note
    """)


def test_a_narrow_terminal_gets_rounder_intervals_and_then_parts():
    assert printed(46) == expected("""
        Metrics [%]
        score        AUROC ↑           records  ECE ↓
        all records       –              1,000  40.00
        eu           100.00 [98, 100]       12   7.10
        不确定性      60.50   [5, 75]    1,000   5.00
        a note
    """)
    assert printed(32) == expected("""
        Metrics [%]
        score        AUROC ↑
        all records       –
        eu           100.00 [98, 100]
        不确定性      60.50   [5, 75]
        score        records  ECE ↓
        all records    1,000  40.00
        eu                12   7.10
        不确定性       1,000   5.00
        a note
    """)


def test_what_stands_in_parts_anyway_keeps_its_tenths_and_figures_their_p_values():
    figure = Percentage(0.0268, -0.0134, 0.0682, signed=True)
    columns = [Column("ΔAUROC"), Column("p", belongs=True), Column("ΔACC*"), Column("p", belongs=True)]
    table = Table("Score − ll_sum", "score", columns, [Row("eu", [figure, "0.196", figure, "0.509"], competes=False)])
    assert printed(40, table) == expected("""
        Score − ll_sum
        score  ΔAUROC                  p
        eu     +2.68 [-1.3, +6.8]  0.196
        score  ΔACC*                   p
        eu     +2.68 [-1.3, +6.8]  0.509
    """)


def test_the_titles_of_all_columns_are_dim():
    titles = printed(80, force_terminal=True, color_system="standard").splitlines()[1]
    plain = re.sub("\x1b\\[2m.*?\x1b\\[0m", "", titles)
    assert "AUROC" in titles
    assert not plain.strip()


def test_the_best_is_bold_and_the_second_underlined_for_each_column():
    text = printed(80, force_terminal=True, color_system="standard")
    assert "\x1b[1m100.00\x1b[0m" in text
    assert "\x1b[4m60.50\x1b[0m" in text
    assert "\x1b[1m5.00\x1b[0m" in text
    assert "\x1b[4m7.10\x1b[0m" in text
    assert "40.00\x1b" not in text
