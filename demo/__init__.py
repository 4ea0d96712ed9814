"""The hub on show: a sample receiver and sample events, on loopback. `python -m demo --help` says how."""
