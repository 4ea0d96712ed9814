"""Fault injection: real processes on a real server are killed, stopped and disconnected at random, and then every claim
is checked against the tables and the logs of all parties. `python -m tools.torture --help`."""
