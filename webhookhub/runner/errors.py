"""Why a process does not start."""


class CannotStart(Exception):
    """A step cannot be created; the message is a sentence that says why and what is expected."""
