"""``tokur`` and ``python -m tokur_cli``."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; until a command can answer Ctrl-C, it ends the process at once, amid whatever import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tokur_cli.app import main as run

    run()


if __name__ == "__main__":
    main()
