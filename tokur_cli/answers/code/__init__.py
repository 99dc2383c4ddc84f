"""Code in responses, run against the tests of its row."""
