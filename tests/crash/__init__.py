"""Runs that die, fail or stop at a named point, and what has to be true afterwards.

`points` names the places, `runner` starts processes that meet a fault there, `situations` are those in which a flush
meets one, `trial` says what the next runs must make of it. The walk over all of them on real components, and over a
covering set on lakes of servers, is `test_every_point.py`, run by ``make test-crash``; some of them run with the
integration tests, and all of them in memory (`memory`) with the unit tests.
"""
