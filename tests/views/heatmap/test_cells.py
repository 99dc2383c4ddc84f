"""Cells and their lines: nothing is lost, nothing is cut, nothing is joined."""

from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes, wcswidth

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.cells import cells_of, wrap

EXOTIC = [
    "\n", "\r\n", "\t", "\x1b[31m", "\x00", "\x9b", "é", "e\u0301", "\u0301", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "日本",
    "\u202e", "\u200b", "\u200d", "\ud800", "\ufeff", " ", "क्षि", "\u2028",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(EXOTIC), st.text(max_size=4)), max_size=12).map("".join)


@st.composite
def responses(draw):
    """A text with spans as hostile as the contract allows: gaps, shared, overlapping and empty ones."""
    text = draw(texts)
    starts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    spans, last = [], 0
    for start in starts:
        last = draw(st.integers(max(start, last), min(len(text), max(start, last) + 6)))
        spans.append((start, last))
    return text, spans


@given(responses())
def test_cells_have_every_token_and_their_text_lies_in_its_tokens(response):
    text, spans = response
    cells = cells_of(text, spans)
    assert {token for cell in cells for token in cell.tokens} == set(range(len(spans)))
    at = 0
    for cell in cells:
        over = {t for t, (start, end) in enumerate(spans) if start < end and start < at + len(cell.text) and end > at}
        if cell.text:
            assert {t for t in cell.tokens if spans[t][0] < spans[t][1]} == over
        else:
            assert len(cell.tokens) == 1
            assert spans[cell.tokens[0]][0] == spans[cell.tokens[0]][1]
        at += len(cell.text)


@given(texts, st.integers(16, 60))
def test_wrap_gives_lines_that_join_to_what_is_shown_and_keep_to_the_width(text, width):
    cells = cells_of(text, [(index, index + 1) for index in range(len(text))])
    lines = wrap(cells, width)
    assert "".join(run.text for runs in lines for run in runs) == "".join(cell.shown for cell in cells)
    for runs in lines:
        assert sum(run.width for run in runs) <= width
        for run in runs:
            assert run.width == sum(max(0, wcswidth(cluster)) for cluster in iter_graphemes(run.text)) or (
                run.width == wcswidth(run.text)
            )


def test_cells_of_one_character_have_the_value_of_its_least_certain_token():
    response = view_samples.EU
    cells = cells_of("x👍y", [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)])
    assert [(cell.text, list(cell.tokens)) for cell in cells] == [("x", [0]), ("👍", [1, 2, 3]), ("y", [4])]
    assert cells[1].value([0.1, 0.2, None, 0.7, 0.1], response) == 0.7
    assert cells[1].value([-0.1, -0.2, None, -0.7, -0.1], view_samples.LOGPROB) == -0.7
    assert cells[1].value([0.1, None, None, None, 0.1], response) is None


def test_cells_of_tokens_without_text_stand_where_these_are():
    cells = cells_of("ab", [(0, 0), (0, 1), (1, 1), (1, 1), (1, 2), (2, 2)])
    assert "".join(cell.shown for cell in cells) == "∎a∎∎b∎"
    assert [list(cell.tokens) for cell in cells] == [[0], [1], [2], [3], [4], [5]]


def test_wrap_breaks_behind_spaces_beside_wide_characters_and_at_newlines():
    text = "one two three four\nfive日本語日本語日本語日本"
    lines = wrap(cells_of(text, [(0, len(text))]), 16)
    assert ["".join(run.text for run in runs) for runs in lines] == [
        "one two three ",
        "four↵",
        "five日本語日本語",
        "日本語日本",
    ]
