"""Guards switched off one at a time: for each, a named test must fail. ``make test-mutations`` runs them."""
