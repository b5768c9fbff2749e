"""What programs print that people run by hand: the layouts of real outputs, with values of ours."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures/programs"
OUTPUTS = {
    folder.name: {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}
    for folder in sorted(FOLDER.iterdir())
}
SAMPLES = {name: max(outputs.values(), key=len) for name, outputs in OUTPUTS.items()}
