"""Speed against peers, each a ratio in one run."""

import os

# Whoever installs rigops has its bytecode, as the peers have theirs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
