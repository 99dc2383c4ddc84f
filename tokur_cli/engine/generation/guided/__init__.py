"""Generation in steps, after each of which the responses so far are judged and resampled."""
