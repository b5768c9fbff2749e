"""Where the outputs of real machines are, which are not part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "RIGOPS_CORPUS"
BESIDE = Path(__file__).resolve().parents[2] / "shared/corpus"
CORPUS = Path(os.environ.get(VARIABLE) or BESIDE)
