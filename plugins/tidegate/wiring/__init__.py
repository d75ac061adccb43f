"""The composition root: files and connections in, sessions out."""
