"""Why the hub cannot work with its database."""


class UnfitDatabase(Exception):
    """The database lacks something that the hub relies on; the message says what, and what is expected."""
