"""Benchmarks. `python -m tools.bench` runs the scenarios (docs/performance.md). Modules with their own command, such as
`python -m tools.bench.egress`, measure one part of the hub."""
