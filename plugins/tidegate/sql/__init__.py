"""How SQL is spelt: quoting and literals of Spark SQL and GoogleSQL, and the literal bounds that prune a merge."""
