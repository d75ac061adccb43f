"""How a publication writes keys and values: one module for each format, found by the format's description."""
