"""How long ``tokur --help`` and ``--version`` take, beside importing typer: ``python -m tests.bench.startup``."""

import json
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "import typer": ["-c", "import typer"],
    "tokur --version": ["-m", "tokur_cli", "--version"],
    "tokur --help": ["-m", "tokur_cli", "--help"],
    "tokur score --help": ["-m", "tokur_cli", "score", "--help"],
}
ROUNDS = 9


def main():
    seconds = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):  # in turn, so that a busy moment strikes all alike
        for name, arguments in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:20} {median:6.3f} s   {median / medians['import typer']:4.1f} × import typer")
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
