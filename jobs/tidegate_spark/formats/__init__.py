"""One module per value or key format, found by its name in `decoded.py`; `tidegate.formats.registry` lists all."""
