"""The hub on show: a sample receiver and sample events, on loopback. `python -m tools.demo --help` says how."""
