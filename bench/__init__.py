"""Benchmarks. `python -m bench` runs the scenarios (docs/performance.md), `python -m bench.egress` measures the delivery
engine beside bare pycurl, `python -m bench.audit` the audit on a large database."""
