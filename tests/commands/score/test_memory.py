"""Memory that stays what it is, however much comes in."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import records, start, write_lines

WARM, MORE, GROWTH_MEGABYTES = 300, 600, 25


def megabytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_score_peak_memory_does_not_grow_with_the_number_of_records(tiny_folder, tmp_path):
    given = write_lines(tmp_path / "in.jsonl", records(WARM + MORE + 300))
    options = ["--no-tokens", "--dtype", "bfloat16", "--batch-tokens", 1500]
    process = start(["score", given, "-m", tiny_folder, *options], stdout=subprocess.PIPE)
    ids, peaks = [], []
    for count in (WARM, MORE):
        ids += [json.loads(process.stdout.readline())["id"] for _ in range(count)]
        peaks.append(megabytes(process))
    process.kill()
    process.communicate()
    assert ids == [f"q{number}" for number in range(WARM + MORE)]
    assert peaks[1] - peaks[0] < GROWTH_MEGABYTES
