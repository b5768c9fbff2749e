"""How much of rigops one command needs: `python -m benchmarks.modules_entered [COMMAND…]`.

Without words it is `rigops plan` of an inventory with one line, this machine and `nccl`. It
writes only a folder that is removed.

imported    modules of rigops that Python loaded
entered     those of which more than the top level ran: the body of a class or of a function
called      those of which a function ran, at the import or after it
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

ONE_LINE = 'rigs = [("@local", {"nccl": {"NCCL_P2P_LEVEL": "SYS"}})]\n'


@dataclass
class Entered:
    folder: str
    files: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)

    def notice(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>":
            return
        if not code.co_filename.startswith(self.folder):
            return
        self.files.add(code.co_filename)
        if code.co_flags & CO_OPTIMIZED:  # as a function's, and not a class's
            self.called.add(code.co_filename)


def main() -> int:
    spec = find_spec("rigops")
    if spec is None or spec.origin is None:
        sys.exit("rigops is not installed here")
    package = Path(spec.origin).parent
    entered = Entered(f"{package}{os.sep}")
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory.py"
        inventory.write_text(ONE_LINE)
        os.environ.update(XDG_STATE_HOME=folder, XDG_DATA_HOME=folder)
        sys.argv = ["rigops", *(sys.argv[1:] or ["plan", str(inventory)])]
        code = _run(entered)
    names = [name for name in sys.modules if name.split(".")[0] == "rigops"]
    print(f"\n{' '.join(sys.argv[:2])} ended with {code}")
    print(f"modules     {sum(1 for _ in package.rglob('*.py'))}")
    print(f"imported    {len(names)}")
    print(f"entered     {len(entered.files)}")
    print(f"called      {len(entered.called)}")
    return 0


def _run(entered: Entered) -> object:
    """In this process, which the program would end itself."""
    os._exit = sys.exit  # type: ignore[assignment]  # so that the count is printed
    threading.setprofile(entered.notice)
    sys.setprofile(entered.notice)
    try:
        runpy.run_module("rigops", run_name="__main__")
    except SystemExit as ended:
        return ended.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
