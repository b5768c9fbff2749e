"""Kernel arguments in bootloader configuration. Pure: texts in, texts out."""
