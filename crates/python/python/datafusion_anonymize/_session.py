"""Sessions: limits, tables with names, and SQL."""

import os
import re
import threading

from . import _native
from ._errors import InvalidOptions
from ._options import described
from ._result import Result

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class Session:
    """A session of DataFusion with ``anonymize`` and its reports. ``connect()`` makes one."""

    def __init__(self, session):
        self._native = session

    def sql(self, query, *, progress=None):
        """Runs SQL. The rows of the last statement if it is a query; they are computed when they are asked for."""
        rows = self._native.sql(query, progress)
        return None if rows is None else Result(rows, self)

    def register(self, name, table):
        """Gives a table, a path or a URL (``s3://``, ``gs://``, ``https://``) a name that SQL knows."""
        if isinstance(table, (str, os.PathLike)):
            self._native.register_files(name, os.fspath(table))
        elif hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
            self._native.register(name, table)
        else:
            raise InvalidOptions(
                f"register: a {type(table).__name__} is no table; give anything with __arrow_c_stream__, a path or a URL"
            )

    def deregister(self, name):
        """Takes a name away. Returns whether there was such a table."""
        return self._native.deregister(name)

    def read_parquet(self, path):
        """The rows of Parquet files, read when they are asked for."""
        return self.sql(f"SELECT * FROM '{_quoted(path)}'")

    def write_parquet(self, rows, path, partition_by=()):
        """Writes a result as Parquet files that appear when the last row is written, or not at all.

        A path that ends with ``.parquet`` is one file, any other a directory. Returns the number of rows.
        """
        if not isinstance(rows, Result):
            raise InvalidOptions("write_parquet writes a result, such as session.anonymize(…) or session.sql('SELECT …')")
        columns = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        return self._native.write(rows._rows, os.fspath(path), "PARQUET", columns)

    @described("anonymize", bound=True)
    def anonymize(self, table, /, *, progress=None, **options):
        return Result(self._native.call("anonymize", (table,), options, progress), self)

    @described("privacy_report", bound=True)
    def privacy_report(self, /, *published, progress=None, **options):
        return Result(self._native.call("privacy_report", published, options, progress), self)

    @described("utility_report", bound=True)
    def utility_report(self, original, /, *published, progress=None, **options):
        return Result(self._native.call("utility_report", (original, *published), options, progress), self)

    @described("series_report", bound=True)
    def series_report(self, /, *releases, progress=None, **options):
        return Result(self._native.call("series_report", releases, options, progress), self)


def connect(
    *, memory_limit=None, temp_dir=None, disk_limit=None, seed=None, target_partitions=None, batch_size=None
):
    """A session of its own.

    Options:
        memory_limit: Memory that queries may use, as in "2GB" or a number of bytes; beyond it rows wait in files. Tables that
            Python holds do not count.
        temp_dir: Where these files are.
        disk_limit: How large they may become, 100 GB without it.
        seed: The secret that breaks ties, for queries that name none: 16 characters or more. Without it one is drawn.
        target_partitions: Tasks that a query is divided into, one per core without it.
        batch_size: Rows of a batch.
    """
    limits = {
        "memory_limit": _bytes("memory_limit", memory_limit),
        "disk_limit": _bytes("disk_limit", disk_limit),
        "temp_dir": temp_dir,
        "target_partitions": _count("target_partitions", target_partitions),
        "batch_size": _count("batch_size", batch_size),
    }
    return Session(_native.Session(limits, None if seed is None else str(seed)))


_lock = threading.Lock()
_shared = None


def default_session():
    """The session of the functions that are called without one. It draws one seed: its releases of the same rows agree."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = connect()
        return _shared


def _quoted(path):
    return os.fspath(path).replace("'", "''")


def _bytes(option, size):
    """A size as the program reads it: 2GB, 512m, 1 GiB."""
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        return size
    read = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", str(size).strip().lower())
    if not isinstance(size, str) or read is None or int(read[1]) == 0:
        raise InvalidOptions(f"{option}: write a number of bytes, or one with k, m, g or t, such as '512MB' or '2GB'")
    return int(read[1]) << _UNITS[read[2]]


def _count(option, count):
    if count is None or (isinstance(count, int) and not isinstance(count, bool) and count > 0):
        return count
    raise InvalidOptions(f"{option}: write a whole number from 1, such as 8")
