"""The contract with Spark, as JSON: one frozen argument per job, with no secret in it, and what jobs leave behind."""
