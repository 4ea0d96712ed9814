"""Tries to refute that nothing is lost and nothing happens twice: real processes on a real server, killed, stopped and
cut off at random, and a judge who compares what everybody has written down. `python -m tools.torture --help`."""
