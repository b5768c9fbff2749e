"""A user's file of the catalog, with a verdict that the shipped one does not have."""

from __future__ import annotations


def verdict_against(version: str) -> str:
    return f"""
[[drivers]]
branch = "535"

[[drivers.verdicts]]
status = "bad"
versions = "=={version}"
gpus = ["GeForce RTX 3090"]
purpose = "p2p"
since = "2026-11"
why = "Our own rig hung on it."
evidence = [{{ where = "our lab book", date = "2026-11-01", hardware = "2x RTX 3090" }}]
"""
