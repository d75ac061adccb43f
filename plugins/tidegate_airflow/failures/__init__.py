"""Runs that fail: what they tell later runs, when the work is tried again, and who is told."""
