"""Benchmarks: `python -m bench.egress` measures the delivery engine beside bare pycurl, in one run."""
