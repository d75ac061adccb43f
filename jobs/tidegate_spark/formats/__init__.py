"""One module per plain value or key format, and the registry of all formats."""
