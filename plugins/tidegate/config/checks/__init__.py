"""What one key cannot say alone: a check per subject, each appending problems."""
