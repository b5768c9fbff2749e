"""One self-contained page for a browser: no script, and nothing that it fetches."""
