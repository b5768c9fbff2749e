"""What an apply would do: changes, blockers, notices, consent."""
