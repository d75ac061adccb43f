"""What a flush costs, measured beside a hand-written peer on the same records: `make bench`."""
