"""Runs that die, fail or stop at a named point, and what has to be true afterwards.

`points` names the places, `runners` starts processes that meet a fault there, `worlds` says what the next run must
make of it. The walk over all of them on real components is `test_every_point.py`, run by ``make test-crash``; a
covering set of it runs with the integration tests, and all of them in memory with the unit tests.
"""
