"""Pages and pictures of docs/ that are made from the code, the catalog and a recording."""
