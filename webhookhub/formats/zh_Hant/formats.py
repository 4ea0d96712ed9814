"""Moments as an operator compares them with logs: to the second, sortable, and saying that they are UTC."""

DATETIME_FORMAT = "Y-m-d H:i:s T"
