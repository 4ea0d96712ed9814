"""Business workflows on show: a shop of seven small services that know the hub and not each other.

`python -m tools.demo.workflows --help` says how.
"""
