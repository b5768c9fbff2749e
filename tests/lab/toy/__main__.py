"""`python -m tests.lab.toy …` is `rigops …` with one concern more."""

from __future__ import annotations

from rigops.cli.main import run
from rigops.concerns import registry
from tests.lab.toy.concern import TOY

registry.CONCERNS.append(TOY)
run()
