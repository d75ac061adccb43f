"""How bytes become rows: one small module per format, each for keys, for values, or for both."""
