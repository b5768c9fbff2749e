"""What reads foreign text, on text that was damaged in every way that we could think of."""
