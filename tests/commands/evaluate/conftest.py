import pytest

from tests.helpers import parsed, write_lines


@pytest.fixture
def evaluate(run_tokur, tmp_path):
    """Evaluate lists of records; returns (exit code, JSON lines or text, standard error)."""

    def run(*inputs, options=()):
        paths = []
        for place, records in enumerate(inputs):
            paths.append(write_lines(tmp_path / f"in{place}.jsonl", records))
        code, out, err = run_tokur("evaluate", *paths, *options)
        return code, parsed(out) if out.startswith("{") else out, err

    return run
