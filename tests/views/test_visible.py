"""Model text is drawn visibly and harmlessly, and every code point of it once."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from tokur_cli.views.visible import glyphs, picture, shorten

any_text = st.text(alphabet=st.characters(exclude_categories=[])) | st.text(
    alphabet="ab\n\r\t\x1b\u200d\u0301👍日\ud800"
)


@given(any_text)
def test_glyphs_cover_the_text_in_order(text):
    at = 0
    for glyph in glyphs(text):
        assert glyph.start == at
        assert glyph.end > at
        at = glyph.end
    assert at == len(text)


@given(any_text)
def test_picture_has_no_control_code_and_can_be_written(text):
    shown = picture(text)
    shown.encode()
    for char in shown:
        category = unicodedata.category(char)
        assert category not in ("Cc", "Cs", "Zl", "Zp")
        assert category != "Cf" or char in "\u200c\u200d" or 0xE0020 <= ord(char) <= 0xE007F
    assert all(glyph.width >= 1 and glyph.width == max(1, wcswidth(glyph.shown)) for glyph in glyphs(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("a\nb", "a↵b"),
        ("a\r\nb", "a⟨U+000D⟩↵b"),
        ("\t", "⇥   "),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("\x00\x07\x7f", "⟨U+0000⟩⟨U+0007⟩⟨U+007F⟩"),
        ("\x9b", "⟨U+009B⟩"),
        ("\u202e", "⟨U+202E⟩"),
        ("\u200b\ufeff\u00ad", "⟨U+200B⟩⟨U+FEFF⟩⟨U+00AD⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\uffff", "⟨U+FFFF⟩"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("क\u200d", "क⟨U+200D⟩"),
        ("👩\u200d", "👩⟨U+200D⟩"),
        ("\u200dक", "⟨U+200D⟩क"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("🏴\U000e0067\U000e0062\U000e007f", "🏴\U000e0067\U000e0062\U000e007f"),
        ("x\U000e0041", "x⟨U+E0041⟩"),
    ],
)
def test_picture_of_what_is_hidden_or_joined(text, shown):
    assert picture(text) == shown


@given(any_text.map(picture), st.integers(1, 30), st.booleans())
def test_shorten_fits_a_picture(text, width, keep_end):
    short = shorten(text, width, keep_end=keep_end)
    assert wcswidth(short) <= width or wcswidth(text) <= width
    assert short == text or (short.startswith("…") if keep_end else short.endswith("…"))
