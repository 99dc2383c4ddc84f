"""Peak resident memory of ``tokur score``.

    python -m tests.bench.memory [--records 100000] [--responses 512] [--models tiny,smollm2,wide,llama1b,llama3b]

Inputs of 10 and of very many records go through a tiny model. SmolLM2 (a vocabulary of 49,152) and a random model of
two thin layers with a vocabulary of 262,144 score responses to as many questions, and as many samples of one question.
Random models of real shapes, if ``--models`` names them, score 16.
Each run is a process of its own. What is the model's is taken off: its weights and, where loading converts them, the
file they are read from, which is mapped until then. The run fails if more than 1 GB is left. What merely loading the
model takes at most is set beside it.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONSTANT_MEGABYTES = 1000.0
SMOLLM2 = "smollm2-135m-instruct"
MAKE = """
import sys
from pathlib import Path
from tests.tiny import tiny_model_folder
tiny_model_folder(Path(sys.argv[1]))
wide = {"vocab_size": 2**18, "hidden_size": 64, "tie_word_embeddings": True, "max_position_embeddings": 4096}
tiny_model_folder(Path(sys.argv[1]), "qwen2", **wide)
"""
LOAD = """
import sys
from pathlib import Path
from tokur_cli.engine.model.request import ModelRequest
from tokur_cli.engine.model.load import load_language_model
from tokur_cli.engine.loading.reordered import parameters_of
from tokur_cli.engine.model.find import find_source
modules = load_language_model(ModelRequest(sys.argv[1])).model.modules()
parameters = {id(parameter): parameter for module in modules for _, parameter in parameters_of(module)}
weights = sum(parameter.nbytes for parameter in parameters.values())
files = sum(file.stat().st_size for file in Path(find_source(sys.argv[1], None, print).place).glob("*.safetensors"))
print(weights, files if files > 1.5 * weights else 0)
"""


def write_responses(path, questions, samples, *, words=12, context=0):
    """Write ``samples`` responses to each of ``questions`` questions, some longer than others."""
    rng = random.Random(0)
    with path.open("w") as file:
        for question in range(questions):
            text = "We count. " * context + f"How many apples are {question} and {rng.randrange(100)} apples?"
            for _ in range(samples):
                steps = [f"{rng.randrange(100)} makes {rng.randrange(100)}," for _ in range(rng.randint(1, words) // 2)]
                response = " ".join([*steps, f"so {rng.randrange(100)} apples"])
                file.write(json.dumps({"id": f"q{question}", "question": text, "response": response}) + "\n")


def measure(arguments):
    """(peak resident megabytes, seconds, standard output) of one process."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * unit / 1e6, time.perf_counter() - began, said


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--responses", type=int, default=512)
    parser.add_argument("--models", default="tiny,smollm2,wide", help="which of these")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Not in this process: what a process holds when it starts another counts for that one too
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True, capture_output=True)
        tiny, wide, large = folder / "tiny-llama", folder / "tiny-qwen2", folder / "large"
        cases = {
            "tiny": [(tiny, 10, 1, {}), (tiny, options.records, 1, {})],
            "smollm2": [(SMOLLM2, options.responses, 1, {}), (SMOLLM2, 1, options.responses, {})],
            "wide": [
                (wide, options.responses, 1, {}),
                (wide, 1, options.responses, {}),
                (wide, 1, options.responses, {"context": 200}),
            ],
            "llama1b": [(large, 16, 1, {})],
            "llama3b": [(large, 16, 1, {})],
        }
        print(
            f"{'model':10}{'questions':>10}{'samples':>9}{'seconds':>9}{'peak':>8}{'weights':>9}{'file':>6}{'rest':>7}{'loading':>9}"
        )
        for label in options.models.split(","):
            if large in cases[label][0]:
                shutil.rmtree(large, ignore_errors=True)
                subprocess.run([sys.executable, "-m", "tests.bench.shapes", label, large], check=True)
            for model, questions, samples, shape in cases[label]:
                loading, _, said = measure(["-c", LOAD, model])
                weights, file = (int(size) / 1e6 for size in said.split())
                given = folder / "in.jsonl"
                write_responses(given, questions, samples, **shape)
                command = ["-m", "tokur_cli", "score", given, "-m", model, "--no-tokens", "-o", os.devnull]
                peak, seconds, _ = measure(command)
                rows.append({
                    "model": label, "questions": questions, "samples": samples, "seconds": round(seconds, 1),
                    "peak_mb": round(peak), "weights_mb": round(weights),
                    "file_mb": round(file), "rest_mb": round(peak - weights - file),
                    "loading_mb": round(loading), **shape,
                })  # fmt: skip
                print(
                    f"{label:10}{questions:10,}{samples:9,}{seconds:9.1f}{peak:8.0f}{weights:9.0f}"
                    f"{file:6.0f}{peak - weights - file:7.0f}{loading:9.0f}{'   a long prompt' if shape else ''}",
                    flush=True,
                )
    print(json.dumps(rows))
    return int(max(row["rest_mb"] for row in rows) > CONSTANT_MEGABYTES)


if __name__ == "__main__":
    raise SystemExit(main())
