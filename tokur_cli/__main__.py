"""``python -m tokur_cli``."""

from tokur_cli.app import main

main()
