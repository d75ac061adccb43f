"""The failures, by what breaks."""
