"""The one kind of error a user can mend: the command line prints it as one line and exits with code 2."""


class HowmError(ValueError):
    """What was wrong, with the value, and what to do about it."""
