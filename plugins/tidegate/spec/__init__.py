"""What the user asked for: the frozen dataclasses of a pipeline and a publication, without a line of parsing or I/O."""
