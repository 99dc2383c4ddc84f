"""What Ray reads when it is first imported, here into the tests' own process, holds for all of their clusters."""

import os
import secrets

from tokur_cli.commands.workers.cluster import ALONE

os.environ.update(ALONE, RAY_AUTH_TOKEN=secrets.token_hex())
