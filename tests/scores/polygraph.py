"""What lm-polygraph computes of small inputs; see tests/data/lm_polygraph/README.md."""

import json
from pathlib import Path

EXPECTED = json.loads((Path(__file__).parent.parent / "data/lm_polygraph/expected.json").read_text(encoding="utf-8"))
MATRICES = EXPECTED["matrices"]
TEXTS = EXPECTED["texts"]
