"""A demo of the hub with a sample endpoint and sample events on loopback: `python -m tools.demo --help`."""
