"""How a staged batch becomes visible: merge statements, write mode, audits, dead letters, and the compare-and-swap."""
