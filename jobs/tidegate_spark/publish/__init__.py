"""The publish job: difference of two snapshots, encoded and produced."""
