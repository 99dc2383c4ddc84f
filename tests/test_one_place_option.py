"""An option of the posterior takes three places: its declaration, the setting that is kept, and the engine's use."""

import json
import re
import subprocess
import sys

import pytest

from tests.commands.score.test_score import parsed, records, write_lines
from tests.copied_package import copied_package

DECLARATION = (
    "commands/options/scoring.py",
    '    seed: Annotated[int, Option(metavar="N", help="Seed of all random numbers.")] = PosteriorSettings.seed\n',
    '    salt: Annotated[int, Option(metavar="N", help="A second seed.")] = PosteriorSettings.salt\n',
)
SETTING = (
    "engine/posterior/settings.py",
    '    seed: int = setting(0, "an integer", lambda value: type(value) is int)\n',
    '    salt: int = setting(7, "an integer", lambda value: type(value) is int)\n',
)
USE = (
    "engine/posterior/posterior.py",
    '        key = (self.seed, "step", member, matrix.name)\n',
    "        key = (*key, self.salt)\n",
)
RUN_EACH = """
import json, os, sys
import torch
import tokur_cli.commands.score.pipeline
from tokur_cli.app import main

torch.set_num_threads(1)
codes = []
for number, arguments in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(f"{number}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = ["tokur", *arguments]
        main()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run command lines with a copy of the package that has the option ``--salt``, each in a fork of one process."""
    folder = tmp_path_factory.mktemp("copy")
    file, old, new = DECLARATION
    environment = copied_package(folder, file, old, old + new)
    for file, old, new in (SETTING, USE):
        path = folder / "tokur_cli" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, old + new))

    def results(command_lines):
        words = json.dumps([list(map(str, words)) for words in command_lines])
        done = subprocess.run(
            [sys.executable, "-c", RUN_EACH, words],
            env=environment | {"COLUMNS": "100"}, cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        read = [
            (folder / f"{number}.{stream}").read_text() for number in range(len(command_lines)) for stream in (1, 2)
        ]
        return list(zip(json.loads(done.stdout.splitlines()[-1]), read[::2], read[1::2], strict=True))

    return results


@pytest.mark.slow
def test_an_option_of_the_posterior_takes_three_places(run, tiny_folder, tmp_path):
    lines = write_lines(tmp_path / "responses.jsonl", records(2))
    of_model, salted, kept = ("-m", tiny_folder), tmp_path / "salted.jsonl", tmp_path / "kept"
    score = ("score", lines, *of_model)
    generate = ("generate", lines, *of_model, "--max-new-tokens", 2)
    results = run(
        [
            *((command, "--help") for command in ("score", "generate", "perturb")),
            score,
            (*score, "--salt", 5, "-o", salted),
            (*generate, "--score", "--salt", 5),
            ("perturb", *of_model, "--salt", 5, "-o", kept),
            (*score, "--posterior", kept),
            (*score, "--salt", 5),
            (*score, "--posterior", kept, "--salt", 5),
            ("score", lines, "--from-logprobs", "--salt", 7),
            (*score, "--salt", 6, "-o", salted, "--resume"),
        ]
    )
    for _, shown, _ in results[:3]:
        assert re.search(r"--salt N\s+A second seed\.\s+\[default: 7\]", shown), shown
    assert [code for code, _, _ in results[3:9]] == [0] * 6, results
    default, generated, read, drawn = (parsed(results[place][1]) for place in (3, 5, 7, 8))
    assert {record["tokur"]["run"]["salt"] for record in default} == {7}
    assert {record["tokur"]["run"]["salt"] for record in [*parsed(salted.read_text()), *generated, *read]} == {5}
    assert json.loads((kept / "posterior.json").read_text())["salt"] == 5
    eu = [[record["tokur"]["scores"]["eu"] for record in scored] for scored in (default, read, drawn)]
    assert eu[0] != eu[1] == eu[2]
    assert [(code, error) for code, _, error in results[9:11]] == [
        (2, "tokur score: --salt contradicts --posterior: leave one of them out\n"),
        (2, "tokur score: --salt contradicts --from-logprobs: leave one of them out\n"),
    ]
    code, _, error = results[11]
    assert code != 0
    assert "salt" in error.replace(str(salted), "")
