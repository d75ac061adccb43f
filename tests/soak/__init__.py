"""Fifty pipelines on servers of every kind, under a fault each minute: `make test-soak SOAK_MINUTES=120`."""
