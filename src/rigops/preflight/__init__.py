"""The P2P test: runs a program on a host, and gives verdicts on its output."""
