from __future__ import annotations

from rigops.concerns.borg.host.archive_contents import ArchivedFile
from rigops.concerns.borg.host.sampling import choose_sample


def files(*sizes: int) -> list[ArchivedFile]:
    return [ArchivedFile(f"home/{number}", size) for number, size in enumerate(sizes)]


def test_a_sample_is_small_fits_and_is_the_same_for_the_same_archive() -> None:
    every = files(*range(1, 1000))

    first, again, other = (choose_sample(every, 10_000, seed) for seed in ("a", "a", "b"))

    assert first == again != other
    assert len(first.files) <= 40
    assert first.bytes <= 10_000
    assert choose_sample(files(5, 500), 100, "a").files == tuple(files(5))
