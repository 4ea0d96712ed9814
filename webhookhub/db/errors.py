"""Named faults of the database beneath the hub."""


class UnfitDatabase(Exception):
    """The database cannot hold what the hub promises; the message says why and what would be right."""
