"""Requirements before the disk of a host may be wiped: pure functions of a Subject."""
