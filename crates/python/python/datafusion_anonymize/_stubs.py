"""Writes ``__init__.pyi``: ``python -m datafusion_anonymize._stubs > python/datafusion_anonymize/__init__.pyi``."""

import textwrap

from ._options import ABOUT, documentation, options

_HEADER = '''\
"""Made by `python -m datafusion_anonymize._stubs` from the list of options: do not edit."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pandas
import polars
import pyarrow

__version__: str

class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

#: A table, the name of a table of the session, or a path.
Table: TypeAlias = _Stream | _Array | str | os.PathLike[str]

class AnonymizeError(Exception): ...
class InvalidOptions(AnonymizeError, ValueError): ...
class Unsatisfiable(AnonymizeError): ...
class ResourcesExhausted(AnonymizeError, MemoryError): ...
class QueryFailed(AnonymizeError): ...
class NotPublished(AnonymizeError): ...
class InternalError(AnonymizeError): ...

class Hierarchy: ...

#: Steps, a table of leaf, level 1, …, a dict of the same, or a path to a CSV file.
HierarchyLike: TypeAlias = Hierarchy | Table | Mapping[Any, str | Sequence[str]]

def intervals(*widths: float) -> Hierarchy: ...
def prefixes(*kept: int) -> Hierarchy: ...
def date_steps(*units: str) -> Hierarchy: ...

class Result:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def to_arrow(self) -> pyarrow.Table: ...
    def to_pandas(self, **options: Any) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...
    def write_parquet(self, path: str | os.PathLike[str], partition_by: str | Iterable[str] = ()) -> int: ...

class Page(str):
    def save(self, path: str | os.PathLike[str]) -> None: ...

def connect(
    *,
    memory_limit: str | int | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
    disk_limit: str | int | None = None,
    seed: str | int | None = None,
    target_partitions: int | None = None,
    batch_size: int | None = None,
) -> Session: ...
def run_job(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    new_series: bool = False,
    progress: Callable[[str, int, int | None], Any] | None = None,
    session: Session | None = None,
) -> dict[str, Any]: ...
def report(
    job: str | os.PathLike[str] | None = None,
    *,
    original: str | os.PathLike[str] | None = None,
    published: str | os.PathLike[str] | None = None,
    threshold: int | None = None,
    title: str | None = None,
    session: Session | None = None,
    **options: Any,
) -> Page: ...
def register(context: Any, *, session: Session | None = None) -> None: ...
'''

_SESSION = '''\
class Session:
    def sql(self, query: str, *, progress: Callable[[int, int | None], Any] | None = None) -> Result | None: ...
    def register(self, name: str, table: Table) -> None: ...
    def deregister(self, name: str) -> bool: ...
    def read_parquet(self, path: str | os.PathLike[str]) -> Result: ...
    def write_parquet(
        self, rows: Result, path: str | os.PathLike[str], partition_by: str | Iterable[str] = ()
    ) -> int: ...
'''


def _function(name, is_method):
    parameters = ["self"] if is_method else []
    tables = ABOUT[name][0]
    parameters += [f"{table}: Table" for table in tables]
    if not tables[-1].startswith("*"):
        parameters += ["/", "*"]
    parameters += [f"{option}: {annotation} = ..." for option, annotation, _ in options(name)]
    listed = "\n".join(f"    {parameter}," for parameter in parameters)
    text = textwrap.indent(f'"""{documentation(name)}\n"""', "    ", lambda line: line.strip())
    return f"def {name}(\n{listed}\n) -> Result:\n{text}\n    ...\n"


def stubs():
    """The text of the file."""
    methods = "".join(textwrap.indent(_function(name, True), "    ", lambda line: line.strip()) for name in ABOUT)
    functions = "".join(_function(name, False) for name in ABOUT)
    return _HEADER + "\n" + functions + "\n" + _SESSION + methods


if __name__ == "__main__":
    print(stubs(), end="")
