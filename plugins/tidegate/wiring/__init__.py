"""The composition root: files and connections in, ready ports out."""
