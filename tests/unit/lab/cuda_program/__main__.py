"""python -m tests.unit.lab.cuda_program SCENARIO [ARGUMENT…] prints what it saw as JSON."""

from __future__ import annotations

import json
import sys

from tests.unit.lab.cuda_program import scenarios

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps(getattr(scenarios, name)(*arguments)), flush=True)  # noqa: T201 - its output
