"""The one error of the lab: what is wrong, and what to do about it."""

from __future__ import annotations


class LabError(Exception):
    pass
