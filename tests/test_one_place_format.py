"""A new format is one new module and its two lines in the registry: everything that reads logs finds it there."""

import json
import subprocess
import sys

from tests.copied_package import copied_package

REGISTRY = "records/formats/__init__.py"
MODULE = '''
"""Logs of a program that there is not: a first line that says so, and a row a line."""

from tokur_cli.records.formats.adapting import Container, row_format, with_fields


def _adapt(record):
    return with_fields(record, question=record.get("asked"), response=record.get("said"))


def _rows(stream, source, max_line):
    next(stream)
    for number, line in enumerate(stream, start=2):
        yield source, number, line.rstrip() if len(line) <= max_line else None


PROBE = row_format(
    "probe-log",
    "logs of a probe: asked, said",
    lambda fields: {"asked", "said"} <= fields.keys(),
    _adapt,
    verdicts=lambda fields: fields["judges"],
    failed=lambda fields: fields.get("broken") is True,
    logprobs=("trace.logged",),
    containers=(Container(lambda head: head.startswith(b"PROBE "), _rows),),
)
'''


def row(number, logprobs, **more):
    said = [f" {word}" for word in ("so", "it", "is")]
    logged = [{"token": token, "logprob": value} for token, value in zip(said, logprobs, strict=True)]
    return {"id": number, "asked": "Is it?", "said": "".join(said), "trace": {"logged": {"content": logged}}, **more}


def run(env, folder, *words):
    command = [sys.executable, "-m", "tokur_cli", *words]
    done = subprocess.run(command, cwd=folder, env={**env, "COLUMNS": "300"}, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_one_module_makes_a_format_known_with_its_files_verdicts_and_log_probabilities(tmp_path):
    env = copied_package(tmp_path, REGISTRY, "        ALPACA,\n    )", "        ALPACA,\n        PROBE,\n    )")
    registry = tmp_path / "tokur_cli" / REGISTRY
    line = "from tokur_cli.records.formats.openai_batch import OPENAI_BATCH\n"
    registry.write_text(
        registry.read_text().replace(line, f"{line}from tokur_cli.records.formats.probe import PROBE\n")
    )
    (registry.parent / "probe.py").write_text(MODULE)
    rows = [
        row(1, [-0.1, -0.2, -0.3], judges={"strict": True}),
        row(2, [-0.2, -0.2, -0.2], judges={"strict": True}),
        row(3, [-2.0, -1.0, -3.0], judges={"strict": False}),
        row(4, [-9.0, -9.0, -9.0], judges={}, broken=True),
    ]
    log = tmp_path / "log.probe"
    log.write_text("PROBE 1\n" + "".join(json.dumps(row) + "\n" for row in rows) + "{\n")

    assert "probe-log" in run(env, tmp_path, "score", "--help")[1]

    code, scored, said = run(env, tmp_path, "score", str(log), "--from-logprobs", "--skip-invalid")
    assert code == 3
    assert f"{log}:6: is not valid JSON" in said  # its place in the format's own file
    records = [json.loads(line) for line in scored.splitlines()]
    assert [record["tokur"]["tokens"]["logprob"] for record in records] == [
        [token["logprob"] for token in row["trace"]["logged"]["content"]] for row in rows
    ]
    assert [record["correct"] for record in records] == [True, True, False, None]

    (tmp_path / "scored.jsonl").write_text(scored)
    for more in ([], ["--label-field", "strict"]):
        code, out, said = run(env, tmp_path, "evaluate", "scored.jsonl", "--bootstrap", "0", "--scores", "ll", *more)
        assert code == 0, said
        result = json.loads(out.splitlines()[-1])
        assert (result["auroc"]["value"], result["labelled"], result["unlabelled"]) == (1.0, 3, 1)
