"""pyinfra operations for rigs. They stand on rigops' facts, and can be used by any deploy."""
