"""What travels: offsets, positions, batches, table states and progress, as plain values that know no I/O."""
