"""What each key and value format can do: one description each, which checks, steps and Spark's side read."""
