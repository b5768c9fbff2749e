"""What rigops owns on a host: the record, what is to change, and what changes it."""
