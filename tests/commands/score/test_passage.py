"""A record's way through ``tokur score``: how many files it enters, and whether the map of the house shows them."""

import json
import re
import sys
import threading
from collections import Counter
from pathlib import Path

import tokur_cli

ROOT = Path(tokur_cli.__file__).parent
MOST_FILES = 28


def functions_entered(run) -> Counter[tuple[str, str, int]]:
    """How often each of our functions is entered, by (file, name, line)."""
    entered: Counter[tuple[str, str, int]] = Counter()

    def count(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            file = Path(code.co_filename).relative_to(ROOT).as_posix()
            entered[file, code.co_name, code.co_firstlineno] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered


def test_a_record_enters_few_files_and_the_map_shows_each(tiny_folder, tmp_path, run_tokur):
    """Files whose functions are entered more often where there are more records, windows and batches."""

    def entered(records: int) -> Counter[tuple[str, str, int]]:
        source = tmp_path / f"{records}.jsonl"
        rows = [{"id": str(i), "question": f"What is {i} + 1?", "response": f"It is {i + 1}."} for i in range(records)]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

        def run():
            code, _, err = run_tokur("score", source, "-m", tiny_folder, "-o", tmp_path / f"{records}.scored.jsonl")
            assert code == 0, err

        return functions_entered(run)

    entered(1)  # what a process does once
    one_window, two_windows = entered(8), entered(40)
    files = {file for file, _, _ in two_windows - one_window}
    assert {"records/reader.py", "engine/scoring/scorer.py", "records/writer.py"} <= files
    assert len(files) <= MOST_FILES, "\n".join(sorted(files))
    way = tokur_cli.__doc__.partition("One record's way")[2].partition("A new command")[0]
    assert {Path(file).stem for file in files} <= set(re.findall("[a-z_]+", way))
