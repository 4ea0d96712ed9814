"""Named faults because of which a process does not start."""


class CannotStart(Exception):
    """What a step goes by is at fault; the message is a sentence that says what, and what would be right."""
