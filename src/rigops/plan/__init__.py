"""The plan of an apply: changes, blockers, notices, consent."""
