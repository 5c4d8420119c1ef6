"""The steps in which values become less precise."""

from . import _native

Hierarchy = _native.Hierarchy


def intervals(*widths):
    """Aligned intervals of these widths, each a multiple of the one before: ``intervals(5, 10, 20)``."""
    return _native.hierarchy("intervals", widths)


def prefixes(*kept):
    """The first characters, the rest masked; lengths in falling order: ``prefixes(4, 3, 2)``."""
    return _native.hierarchy("prefixes", kept)


def date_steps(*units):
    """Calendar units, from fine to coarse: ``date_steps("month", "year")``."""
    return _native.hierarchy("date_steps", units)
