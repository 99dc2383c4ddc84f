"""``tokur`` and ``python -m tokur_cli``."""

from __future__ import annotations

import atexit
import os
import signal
import sys


def main() -> None:
    """Run the command line; until a command can answer Ctrl-C, it ends the process at once, amid whatever import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    atexit.register(_end_quietly)
    from tokur_cli.app import main as run

    run()


def _end_quietly() -> None:
    """Keep Triton from reporting as leaks what lasts as long as the process, see ``session/model``."""
    if "triton" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


if __name__ == "__main__":
    main()
