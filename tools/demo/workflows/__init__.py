"""A demo of business workflows: a shop of seven services that communicate only through the hub.

See `python -m tools.demo.workflows --help`.
"""
