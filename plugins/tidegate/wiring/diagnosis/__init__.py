"""Puts a diagnosis together: which servers the chosen files need, and the probe of each."""
