"""The concerns that can be declared, a folder each."""
