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

def anonymize(
    table: Table,
    /,
    *,
    k: int = ...,
    quasi_identifiers: str | Sequence[str] = ...,
    sensitive: str | Sequence[str] = ...,
    identifiers: str | Sequence[str] = ...,
    keep: str | Sequence[str] = ...,
    privacy_unit: str = ...,
    unit_share: float = ...,
    method: str = ...,
    variant: str = ...,
    hierarchies: Mapping[str, HierarchyLike] = ...,
    l: int = ...,
    entropy_l: float = ...,
    t: float = ...,
    alpha: float | Sequence[float] = ...,
    sensitivity: Mapping[Any, int] | Table = ...,
    alpha_scope: str = ...,
    publish: str = ...,
    series: Mapping[str, Table] = ...,
    leavers: str = ...,
    changes: str = ...,
    newcomers: str = ...,
    held: bool = ...,
    split: str = ...,
    ranges: str = ...,
    class_id: bool = ...,
    bucket_id: bool = ...,
    column_groups: bool = ...,
    constraints: Sequence[Mapping[str, Any]] = ...,
    suppress: str | bool = ...,
    suppression_limit: float = ...,
    weights: Mapping[str, float] = ...,
    block_rows: int = ...,
    columns: int = ...,
    max_columns: int = ...,
    min_columns: int = ...,
    min_support: float = ...,
    min_confidence: float = ...,
    rare_below: float = ...,
    seed: str | int = ...,
    progress: Callable[[int, int | None], Any] | None = ...,
) -> Result:
    """A release of a table: every published row shares its quasi-identifiers with at least k - 1 others.

    Options:
        k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
        quasi_identifiers: What somebody could know about a person; published less precisely.
        sensitive: What nobody should learn about a person; published as it is.
        identifiers: What names a person; not read and not published.
        keep: Harmless; published as it is.
        privacy_unit: Tells persons apart, so that groups are counted in persons; not published.
        unit_share: The largest share of a group that one person may hold. Above 0 and at most 1. Needs `privacy_unit`; without it one person may hold all but k − 1 rows of a class.
        method: How records are grouped. `layered` for queries that name none, `classfly_complete` if they have `constraints`; `SET anonymize.default_method` chooses another.
        variant: Whether the method runs as its paper prints it. `best` (the default) or `paper`.
        hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
        l: The fewest different sensitive values in a group.
        entropy_l: How evenly sensitive values are spread in a group. The l whose logarithm the entropy of a class reaches.
        t: How far a group may differ from the whole table. The distance between the distributions of sensitive values, from 0 to 1.
        alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
        sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
        alpha_scope: Whether shares are those of a value or of a level of sensitivity. `value` (the default) or `level`.
        publish: Which of two tables is wanted. `quasi_identifiers` or `sensitive`; a job publishes both. With `series` `release` (the default), or `members`, the persons of its new cohorts, which are to be kept in private.
        series: What the release goes on from, so that nobody learns more from comparing it with earlier ones. The rows that `publish => 'members'` gave on all nights before, and the last release; empty tables on the first night.
        leavers: What happens to a group of which somebody is gone. `hold` (the default) repeats its rows of the last release, `withdraw` leaves it out for good. With `series`.
        changes: Whether changed values of persons are published. `publish` (the default), or `never`: everybody's first ones for ever. With `series`.
        newcomers: What happens to persons who are in no group yet. `group` (the default) groups them among themselves, `wait` leaves them for a later night. With `series`.
        held: Whether it is published of which groups somebody is gone. A column `held`. With `series`.
        split: Which column a group is divided by. `least_loss` or `widest`; for queries that name none `SET anonymize.split`, or `widest` with `variant => 'paper'`.
        ranges: How ranges of numbers are written. `label`, `bounds` or `mean`; `SET anonymize.ranges` for queries that name none.
        class_id: Whether the number of a group is published.
        bucket_id: Whether the number of a bucket is published.
        column_groups: Whether it is published which columns of a bucket belong together.
        constraints: Combinations of columns, each with the fewest records that must share them.
        suppress: What happens to records that fit nowhere. `cells` publishes `*`, `rows` or `true` leaves them out.
        suppression_limit: The largest share that may be left out.
        weights: How much columns count when records are compared. 1 for a column that is not listed.
        block_rows: How many records are compared with each other. Larger tables are cut into blocks first.
        columns: How many groups of columns stay together.
        max_columns: The most columns that stay together.
        min_columns: The fewest columns that stay together. With `variant => 'paper'` only.
        min_support: How frequent a connection between columns must be to be kept. A share of all rows.
        min_confidence: How reliable a connection between columns must be to be kept. How often its rule holds, from 0 to 1.
        rare_below: The share below which a value is too rare to be published exactly.
        seed: The secret that breaks ties. Without it one is drawn per session. A release that is written needs one of 16 characters or more, or `SET anonymize.allow_short_seeds = true`. In a file `{ env = "NAME" }` or `{ file = "path" }` says where it is.
        progress: Called now and then with the rows read and, where it is known, the number of all rows.

    A mistake raises InvalidOptions, which says what to write instead.
    """
    ...
def privacy_report(
    *published: Table,
    k: int = ...,
    quasi_identifiers: str | Sequence[str] = ...,
    sensitive: str | Sequence[str] = ...,
    privacy_unit: str = ...,
    unit_share: float = ...,
    l: int = ...,
    entropy_l: float = ...,
    t: float = ...,
    alpha: float | Sequence[float] = ...,
    sensitivity: Mapping[Any, int] | Table = ...,
    alpha_scope: str = ...,
    constraints: Sequence[Mapping[str, Any]] = ...,
    bucket: str = ...,
    original: Table = ...,
    progress: Callable[[int, int | None], Any] | None = ...,
) -> Result:
    """What a published table protects, measured on its rows: measure, column_name, value, target, holds.

    Options:
        k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
        quasi_identifiers: What somebody could know about a person; published less precisely.
        sensitive: What nobody should learn about a person; published as it is.
        privacy_unit: Tells persons apart, so that groups are counted in persons; not published.
        unit_share: The largest share of a group that one person may hold. Above 0 and at most 1. Needs `privacy_unit`; without it one person may hold all but k − 1 rows of a class.
        l: The fewest different sensitive values in a group.
        entropy_l: How evenly sensitive values are spread in a group. The l whose logarithm the entropy of a class reaches.
        t: How far a group may differ from the whole table. The distance between the distributions of sensitive values, from 0 to 1.
        alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
        sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
        alpha_scope: Whether shares are those of a value or of a level of sensitivity. `value` (the default) or `level`.
        constraints: Combinations of columns, each with the fewest records that must share them.
        bucket: The column with the number of the bucket, in a release with a slicing method.
        original: The original table, with which the rows of a sliced table are compared.
        progress: Called now and then with the rows read and, where it is known, the number of all rows.

    A mistake raises InvalidOptions, which says what to write instead.
    """
    ...
def utility_report(
    original: Table,
    *published: Table,
    k: int = ...,
    quasi_identifiers: str | Sequence[str] = ...,
    sensitive: str | Sequence[str] = ...,
    hierarchies: Mapping[str, HierarchyLike] = ...,
    sensitivity: Mapping[Any, int] | Table = ...,
    max_columns: int = ...,
    min_support: float = ...,
    min_confidence: float = ...,
    class_: str = ...,
    progress: Callable[[int, int | None], Any] | None = ...,
) -> Result:
    """What a published table has lost, compared with the original: measure, column_name, value.

    Options:
        k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
        quasi_identifiers: What somebody could know about a person; published less precisely.
        sensitive: What nobody should learn about a person; published as it is.
        hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
        sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
        max_columns: The most columns that stay together.
        min_support: How frequent a connection between columns must be to be kept. A share of all rows.
        min_confidence: How reliable a connection between columns must be to be kept. How often its rule holds, from 0 to 1.
        class_: The column whose majority a class should keep, as a classifier would want it.
        progress: Called now and then with the rows read and, where it is known, the number of all rows.

    A mistake raises InvalidOptions, which says what to write instead.
    """
    ...
def series_report(
    *releases: Table,
    k: int = ...,
    quasi_identifiers: str | Sequence[str] = ...,
    sensitive: str | Sequence[str] = ...,
    hierarchies: Mapping[str, HierarchyLike] = ...,
    l: int = ...,
    alpha: float | Sequence[float] = ...,
    register: Table = ...,
    progress: Callable[[int, int | None], Any] | None = ...,
) -> Result:
    """What releases that follow each other tell together.

    Options:
        k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
        quasi_identifiers: What somebody could know about a person; published less precisely.
        sensitive: What nobody should learn about a person; published as it is.
        hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
        l: The fewest different sensitive values in a group.
        alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
        register: Who is in which release: persons, releases and their quasi-identifiers.
        progress: Called now and then with the rows read and, where it is known, the number of all rows.

    A mistake raises InvalidOptions, which says what to write instead.
    """
    ...

class Session:
    def sql(self, query: str, *, progress: Callable[[int, int | None], Any] | None = None) -> Result | None: ...
    def register(self, name: str, table: Table) -> None: ...
    def deregister(self, name: str) -> bool: ...
    def read_parquet(self, path: str | os.PathLike[str]) -> Result: ...
    def write_parquet(
        self, rows: Result, path: str | os.PathLike[str], partition_by: str | Iterable[str] = ()
    ) -> int: ...
    def anonymize(
        self,
        table: Table,
        /,
        *,
        k: int = ...,
        quasi_identifiers: str | Sequence[str] = ...,
        sensitive: str | Sequence[str] = ...,
        identifiers: str | Sequence[str] = ...,
        keep: str | Sequence[str] = ...,
        privacy_unit: str = ...,
        unit_share: float = ...,
        method: str = ...,
        variant: str = ...,
        hierarchies: Mapping[str, HierarchyLike] = ...,
        l: int = ...,
        entropy_l: float = ...,
        t: float = ...,
        alpha: float | Sequence[float] = ...,
        sensitivity: Mapping[Any, int] | Table = ...,
        alpha_scope: str = ...,
        publish: str = ...,
        series: Mapping[str, Table] = ...,
        leavers: str = ...,
        changes: str = ...,
        newcomers: str = ...,
        held: bool = ...,
        split: str = ...,
        ranges: str = ...,
        class_id: bool = ...,
        bucket_id: bool = ...,
        column_groups: bool = ...,
        constraints: Sequence[Mapping[str, Any]] = ...,
        suppress: str | bool = ...,
        suppression_limit: float = ...,
        weights: Mapping[str, float] = ...,
        block_rows: int = ...,
        columns: int = ...,
        max_columns: int = ...,
        min_columns: int = ...,
        min_support: float = ...,
        min_confidence: float = ...,
        rare_below: float = ...,
        seed: str | int = ...,
        progress: Callable[[int, int | None], Any] | None = ...,
    ) -> Result:
        """A release of a table: every published row shares its quasi-identifiers with at least k - 1 others.

        Options:
            k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
            quasi_identifiers: What somebody could know about a person; published less precisely.
            sensitive: What nobody should learn about a person; published as it is.
            identifiers: What names a person; not read and not published.
            keep: Harmless; published as it is.
            privacy_unit: Tells persons apart, so that groups are counted in persons; not published.
            unit_share: The largest share of a group that one person may hold. Above 0 and at most 1. Needs `privacy_unit`; without it one person may hold all but k − 1 rows of a class.
            method: How records are grouped. `layered` for queries that name none, `classfly_complete` if they have `constraints`; `SET anonymize.default_method` chooses another.
            variant: Whether the method runs as its paper prints it. `best` (the default) or `paper`.
            hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
            l: The fewest different sensitive values in a group.
            entropy_l: How evenly sensitive values are spread in a group. The l whose logarithm the entropy of a class reaches.
            t: How far a group may differ from the whole table. The distance between the distributions of sensitive values, from 0 to 1.
            alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
            sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
            alpha_scope: Whether shares are those of a value or of a level of sensitivity. `value` (the default) or `level`.
            publish: Which of two tables is wanted. `quasi_identifiers` or `sensitive`; a job publishes both. With `series` `release` (the default), or `members`, the persons of its new cohorts, which are to be kept in private.
            series: What the release goes on from, so that nobody learns more from comparing it with earlier ones. The rows that `publish => 'members'` gave on all nights before, and the last release; empty tables on the first night.
            leavers: What happens to a group of which somebody is gone. `hold` (the default) repeats its rows of the last release, `withdraw` leaves it out for good. With `series`.
            changes: Whether changed values of persons are published. `publish` (the default), or `never`: everybody's first ones for ever. With `series`.
            newcomers: What happens to persons who are in no group yet. `group` (the default) groups them among themselves, `wait` leaves them for a later night. With `series`.
            held: Whether it is published of which groups somebody is gone. A column `held`. With `series`.
            split: Which column a group is divided by. `least_loss` or `widest`; for queries that name none `SET anonymize.split`, or `widest` with `variant => 'paper'`.
            ranges: How ranges of numbers are written. `label`, `bounds` or `mean`; `SET anonymize.ranges` for queries that name none.
            class_id: Whether the number of a group is published.
            bucket_id: Whether the number of a bucket is published.
            column_groups: Whether it is published which columns of a bucket belong together.
            constraints: Combinations of columns, each with the fewest records that must share them.
            suppress: What happens to records that fit nowhere. `cells` publishes `*`, `rows` or `true` leaves them out.
            suppression_limit: The largest share that may be left out.
            weights: How much columns count when records are compared. 1 for a column that is not listed.
            block_rows: How many records are compared with each other. Larger tables are cut into blocks first.
            columns: How many groups of columns stay together.
            max_columns: The most columns that stay together.
            min_columns: The fewest columns that stay together. With `variant => 'paper'` only.
            min_support: How frequent a connection between columns must be to be kept. A share of all rows.
            min_confidence: How reliable a connection between columns must be to be kept. How often its rule holds, from 0 to 1.
            rare_below: The share below which a value is too rare to be published exactly.
            seed: The secret that breaks ties. Without it one is drawn per session. A release that is written needs one of 16 characters or more, or `SET anonymize.allow_short_seeds = true`. In a file `{ env = "NAME" }` or `{ file = "path" }` says where it is.
            progress: Called now and then with the rows read and, where it is known, the number of all rows.

        A mistake raises InvalidOptions, which says what to write instead.
        """
        ...
    def privacy_report(
        self,
        *published: Table,
        k: int = ...,
        quasi_identifiers: str | Sequence[str] = ...,
        sensitive: str | Sequence[str] = ...,
        privacy_unit: str = ...,
        unit_share: float = ...,
        l: int = ...,
        entropy_l: float = ...,
        t: float = ...,
        alpha: float | Sequence[float] = ...,
        sensitivity: Mapping[Any, int] | Table = ...,
        alpha_scope: str = ...,
        constraints: Sequence[Mapping[str, Any]] = ...,
        bucket: str = ...,
        original: Table = ...,
        progress: Callable[[int, int | None], Any] | None = ...,
    ) -> Result:
        """What a published table protects, measured on its rows: measure, column_name, value, target, holds.

        Options:
            k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
            quasi_identifiers: What somebody could know about a person; published less precisely.
            sensitive: What nobody should learn about a person; published as it is.
            privacy_unit: Tells persons apart, so that groups are counted in persons; not published.
            unit_share: The largest share of a group that one person may hold. Above 0 and at most 1. Needs `privacy_unit`; without it one person may hold all but k − 1 rows of a class.
            l: The fewest different sensitive values in a group.
            entropy_l: How evenly sensitive values are spread in a group. The l whose logarithm the entropy of a class reaches.
            t: How far a group may differ from the whole table. The distance between the distributions of sensitive values, from 0 to 1.
            alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
            sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
            alpha_scope: Whether shares are those of a value or of a level of sensitivity. `value` (the default) or `level`.
            constraints: Combinations of columns, each with the fewest records that must share them.
            bucket: The column with the number of the bucket, in a release with a slicing method.
            original: The original table, with which the rows of a sliced table are compared.
            progress: Called now and then with the rows read and, where it is known, the number of all rows.

        A mistake raises InvalidOptions, which says what to write instead.
        """
        ...
    def utility_report(
        self,
        original: Table,
        *published: Table,
        k: int = ...,
        quasi_identifiers: str | Sequence[str] = ...,
        sensitive: str | Sequence[str] = ...,
        hierarchies: Mapping[str, HierarchyLike] = ...,
        sensitivity: Mapping[Any, int] | Table = ...,
        max_columns: int = ...,
        min_support: float = ...,
        min_confidence: float = ...,
        class_: str = ...,
        progress: Callable[[int, int | None], Any] | None = ...,
    ) -> Result:
        """What a published table has lost, compared with the original: measure, column_name, value.

        Options:
            k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
            quasi_identifiers: What somebody could know about a person; published less precisely.
            sensitive: What nobody should learn about a person; published as it is.
            hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
            sensitivity: How sensitive the values are; the values themselves are never told. Values with levels from 1, the most sensitive, or a table of both.
            max_columns: The most columns that stay together.
            min_support: How frequent a connection between columns must be to be kept. A share of all rows.
            min_confidence: How reliable a connection between columns must be to be kept. How often its rule holds, from 0 to 1.
            class_: The column whose majority a class should keep, as a classifier would want it.
            progress: Called now and then with the rows read and, where it is known, the number of all rows.

        A mistake raises InvalidOptions, which says what to write instead.
        """
        ...
    def series_report(
        self,
        *releases: Table,
        k: int = ...,
        quasi_identifiers: str | Sequence[str] = ...,
        sensitive: str | Sequence[str] = ...,
        hierarchies: Mapping[str, HierarchyLike] = ...,
        l: int = ...,
        alpha: float | Sequence[float] = ...,
        register: Table = ...,
        progress: Callable[[int, int | None], Any] | None = ...,
    ) -> Result:
        """What releases that follow each other tell together.

        Options:
            k: The fewest records that must look alike. At least 2; `SET anonymize.default_k = 10` for queries that name none.
            quasi_identifiers: What somebody could know about a person; published less precisely.
            sensitive: What nobody should learn about a person; published as it is.
            hierarchies: The steps in which values become less precise. By column: `intervals(5, 10)`, `prefixes(3, 2)`, `date_steps('month', 'year')`, a table, a query or a path to a CSV file.
            l: The fewest different sensitive values in a group.
            alpha: The largest share of one sensitive value in a group. One share, or with `sensitivity` one for each level.
            register: Who is in which release: persons, releases and their quasi-identifiers.
            progress: Called now and then with the rows read and, where it is known, the number of all rows.

        A mistake raises InvalidOptions, which says what to write instead.
        """
        ...
