"""The outside world, one third-party library per file."""
