"""What can go wrong. Messages have the words of SQL, and never a cell of the data."""


class AnonymizeError(Exception):
    """Everything that this package raises of its own."""


class InvalidOptions(AnonymizeError, ValueError):
    """The caller's mistake: the message names the option or the column and says what to write instead."""


class Unsatisfiable(AnonymizeError):
    """No release of these rows keeps what was asked: lower k, or anonymize a larger or more varied input."""


class ResourcesExhausted(AnonymizeError, MemoryError):
    """The memory limit of the session, or the disk space for spilled rows, is too small."""


class QueryFailed(AnonymizeError):
    """The rows could not be read, computed or written."""


class NotPublished(AnonymizeError):
    """A job made a release that does not keep its checks. The last release stays the current one."""


class InternalError(AnonymizeError):
    """A promise of this package is broken. Nothing was published."""
