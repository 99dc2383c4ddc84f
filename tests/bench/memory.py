"""Peak memory of ``tokur score``, and how it grows with the number of records.

    python -m tests.bench.memory [--records 1000,20000] [--model NAME]

Without --model a tiny random one scores responses of a few words; memory must not grow with their number.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE = """
import sys
from pathlib import Path
from tests.tiny import tiny_model_folder
tiny_model_folder(Path(sys.argv[1]))
"""


def peak_megabytes(arguments):
    """The peak resident memory of a run of the command line, in MB."""
    process = subprocess.Popen([sys.executable, "-m", "tokur_cli", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", default="1000,20000")
    parser.add_argument("--model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.model is None:
            subprocess.run([sys.executable, "-c", MAKE, folder], check=True, capture_output=True)
        model = options.model or Path(folder, "tiny-llama")
        for count in map(int, options.records.split(",")):
            given = Path(folder, "in.jsonl")
            with given.open("w") as file:
                for number in range(count):
                    row = {"id": str(number), "question": f"How much is {number} + 1?", "response": f"{number + 1}."}
                    file.write(json.dumps(row) + "\n")
            peak = peak_megabytes(["score", given, "-m", model, "--no-tokens", "-o", os.devnull])
            print(f"{count:8,} records: {peak:,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
