"""What runs on Spark: DataFrames and SQL only, so that the same code runs through Connect and spark-submit."""
