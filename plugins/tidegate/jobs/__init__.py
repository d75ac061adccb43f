"""The contract with Spark: one frozen argument per job, as JSON, with no secret in it."""
