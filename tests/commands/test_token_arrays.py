"""The arrays of a response's tokens fit its text, or it is said what does not."""

import pytest

from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record


@pytest.mark.parametrize(
    ("spans", "values", "message"),
    [
        ([(0, 4)], [0.1], r"offsets\[0\] is \[0, 4\], outside the response of 3 code points"),
        ([(2, 1)], [0.1], r"offsets\[0\] is \[2, 1\], outside"),
        ([(0, 2), (1, 1)], [0.1, 0.1], r"offsets\[1\] is \[1, 1\], before"),
        ([(0, 1), (1, 2)], [0.1], '"eu" has 1 token values but there are 2 tokens'),
    ],
)
def test_a_malformed_response_is_refused_in_words(spans, values, message):
    fields = {"response": "abc", "tokur": {"tokens": {"offsets": spans, "eu": values}}}
    with pytest.raises(RecordError, match=f"^in.jsonl:7: {message}"):
        scored_tokens(Record.of(fields, "in.jsonl", 7), ["eu"])
