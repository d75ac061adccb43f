"""The DAG of a fleet, and what its tasks do for all members: one look, then what runs once for everybody."""
