"""The script that tries DeepConf's online rule: one question whose figures can be worked out by hand."""

import subprocess
import sys
from pathlib import Path

from tests.commands.score.test_score import write_lines

SCRIPT = Path(__file__).parent.parent / "samples" / "deepconf_online.py"


def record(question, sample, answer, confidences):
    return {
        "id": question,
        "correct": answer == "7",
        "tokur": {"sample": sample, "answer": answer, "tokens": {"deepconf": confidences}},
    }


def run(path, *options):
    ended = subprocess.run([sys.executable, SCRIPT, path, *options], capture_output=True, text=True, check=True)
    return [line.partition(": ")[2] for line in ended.stdout.splitlines()]


def test_a_sample_ends_with_the_first_window_below_the_threshold(tmp_path):
    """The unsure samples are wrong and most; each of their windows of 2 tokens is below those of the sure ones."""
    sure = [record(question, sample, "7", [4.0, 4.0, 4.0]) for question in "ab" for sample in range(3)]
    unsure = [record(question, sample, "8", [2.9] * 9) for question in "ab" for sample in range(3, 8)]
    path = write_lines(tmp_path / "graded.jsonl", sure + unsure)
    low, high = run(path, "--warm-up", "8", "--window", "2")
    assert low.startswith("+100.0 [100.0, 100.0] points from the plain vote of all, 100.0% of its tokens")
    assert high.startswith("+0.0 [0.0, 0.0] points")  # 5 votes of 2.9 are more than 3 of 4
    path = write_lines(tmp_path / "equal.jsonl", [*sure[:3], *sure[:3], unsure[0]])
    (low, _) = run(path, "--warm-up", "1", "--window", "2")
    # Six sure samples and an unsure one, which is the first in a seventh of the orders and otherwise ends after 2 of 9
    tokens = float(low.partition("all, ")[2].partition("%")[0])
    assert abs(tokens - 100 * (6 / 7 * 20 + 1 / 7 * 27) / 27) < 3
