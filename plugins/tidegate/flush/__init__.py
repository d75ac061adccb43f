"""The verbs of a flush, one module each: what a task or a command runs."""
