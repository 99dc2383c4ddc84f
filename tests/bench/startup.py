"""How long tokur takes to start, and at what: ``python -m tests.bench.startup [--rounds 5]``.

``tokur --help`` and ``--version`` are set beside importing typer; a second run of ``tokur score`` on one record with
the embedded model beside importing torch and transformers, which it cannot do without, and beside a script that loads
the same model by transformers and puts the same rows through it. Medians over rounds in turn; the time of the
processor tells more than the clock where the machine has other work.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tokur_cli.engine.loading.default_model import default_model_folder
from tokur_cli.engine.loading.hardware import resolve_dtype

LIGHT, HEAVY = "import typer", "import torch, transformers"
SCORE = "tokur score, 1 record"
SCRIPT = "transformers, 1 record"
SAMPLES = Path(__file__).parents[2] / "samples"
PASS = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar
disable_progress_bar()
AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[2]))
made = json.loads(open(sys.argv[3]).readline())["tokur"]
with torch.inference_mode():
    model(input_ids=torch.tensor([made["prompt_token_ids"] + made["token_ids"]] * 3)).logits.float().log_softmax(-1)
"""
PHASES = """
import sys, time
from tokur_cli.app import main
from tokur_cli.commands.shared.imports import lasting_objects
marks = [("python and typer", time.time())]
def mark(name):
    marks.append((name, time.time()))
with lasting_objects():
    import torch; mark("import torch")
    import transformers; mark("import transformers")
    from tokur_cli.engine.loading.imports import import_transformers
    import_transformers()
    import tokur_cli.commands.session.job as job
    import tokur_cli.commands.score.pipeline as pipeline; mark("import its model classes, and tokur")
def marked(name, function):
    def call(*arguments):
        result = function(*arguments)
        mark(name)
        return result
    return call
job.load = marked("load the model", job.load)
pipeline.RecordScorer = marked("the basis, from the cache", pipeline.RecordScorer)
try:
    main()
finally:
    mark("score and write")
    import json
    print(json.dumps(marks), file=sys.stderr)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "one.jsonl"
        with (SAMPLES / "responses.jsonl").open() as lines:
            one.write_text(next(lines))
        dtype = str(resolve_dtype("auto", "cpu")).removeprefix("torch.")
        commands = {
            LIGHT: ["-c", LIGHT],
            "tokur --version": ["-m", "tokur_cli", "--version"],
            "tokur --help": ["-m", "tokur_cli", "--help"],
            "tokur score --help": ["-m", "tokur_cli", "score", "--help"],
            HEAVY: ["-c", HEAVY],
            SCRIPT: ["-c", PASS, str(default_model_folder(print)), dtype, str(one)],
            SCORE: ["-m", "tokur_cli", "score", str(one)],
        }
        run(commands[SCORE])  # the first run makes what later ones find in the cache
        runs = {name: [] for name in commands}
        phases = []
        for _ in range(rounds):  # in turn, so that a busy moment strikes all alike
            for name, arguments in commands.items():
                runs[name].append(run(arguments)[:2])
            phases.append(run_in_phases(["score", str(one)]))
    wall, processor = medians(runs)
    report(wall, processor, {name: statistics.median(run[name] for run in phases) for name in phases[0]})


def medians(runs):
    """(seconds on the clock, seconds of processor time) by name."""
    return tuple(
        {name: statistics.median(run[which] for run in each) for name, each in runs.items()} for which in (0, 1)
    )


def run(arguments, stderr=None):
    """(seconds on the clock, of processor time, standard error) of one run."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=stderr)
    said = process.stderr.read() if stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said.decode()
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, said


def run_in_phases(arguments):
    """Seconds on the clock of each phase, in order."""
    began = time.time()
    said = run(["-c", PHASES, *arguments], stderr=subprocess.PIPE)[2]
    marks = [*json.loads(said.splitlines()[-1]), ("end the process", time.time())]
    return {name: end - begin for (_, begin), (name, end) in zip([("", began), *marks], marks, strict=False)}


def report(wall, processor, phases):
    print(f"{'':26}    clock  processor")
    for name, seconds in wall.items():
        beside = {SCORE: (HEAVY, SCRIPT), LIGHT: (), HEAVY: (), SCRIPT: ()}.get(name, (LIGHT,))
        ratio = "".join(f"   {processor[name] / processor[other]:4.2f} × {other}" for other in beside)
        print(f"{name:26} {seconds:6.3f} s {processor[name]:6.3f} s{ratio}")
    print(f"\n{SCORE}, by the clock")
    for name, seconds in phases.items():
        print(f"{name:36} {seconds:6.3f} s {seconds / sum(phases.values()):5.0%}")
    print(json.dumps({"seconds": wall, "processor_seconds": processor, "phases": phases}))


if __name__ == "__main__":
    main()
