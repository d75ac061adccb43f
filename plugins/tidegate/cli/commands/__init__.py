"""What each command does: words in, exit code out. Its module is loaded when it is run, and never for help."""
