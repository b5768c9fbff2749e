"""Ownership on a host: the record, its planned changes, and the work that makes them."""
