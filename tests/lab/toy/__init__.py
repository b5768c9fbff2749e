"""A concern that lives here only: rigops has to bring it about without knowing it."""
