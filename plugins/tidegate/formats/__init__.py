"""What each key and value format of records can do: one description each, which checks, steps and Spark's side read."""
