"""Benchmarks. `python -m tools.bench` runs the scenarios (docs/performance.md); those with a name of their own, such as
`python -m tools.bench.egress`, measure one part of the hub."""
