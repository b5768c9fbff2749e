"""Programs that run on hosts: each joined with what it shares into one text, before it is sent."""
