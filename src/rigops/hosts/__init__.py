"""Work on many hosts at once, while a person watches: probing them, asking their engines."""
