"""Which engines read the tables: `make test-engines` makes them, lets each engine read them, and writes what it saw."""
