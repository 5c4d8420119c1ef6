"""Anonymization for tables of pandas, polars, pyarrow and DuckDB.

    from datafusion_anonymize import anonymize, intervals, prefixes

    release = anonymize(
        patients, k=10, quasi_identifiers=["age", "zip"], sensitive=["disease"], identifiers=["name"],
        hierarchies={"age": intervals(5, 10, 20), "zip": prefixes(4, 3, 2)},
    )
    release.to_pandas()

Every column needs a role. The requirement is verified before the first row is there.
"""

import atexit

from . import _native
from ._datafusion import register
from ._errors import (
    AnonymizeError,
    InternalError,
    InvalidOptions,
    NotPublished,
    QueryFailed,
    ResourcesExhausted,
    Unsatisfiable,
)
from ._functions import anonymize, privacy_report, series_report, utility_report
from ._hierarchies import Hierarchy, date_steps, intervals, prefixes
from ._jobs import Page, report, run_job
from ._result import Result
from ._session import Session, connect

__version__ = _native.__version__

__all__ = [
    "AnonymizeError",
    "Hierarchy",
    "InternalError",
    "InvalidOptions",
    "NotPublished",
    "Page",
    "QueryFailed",
    "ResourcesExhausted",
    "Result",
    "Session",
    "Unsatisfiable",
    "anonymize",
    "connect",
    "date_steps",
    "intervals",
    "prefixes",
    "privacy_report",
    "register",
    "report",
    "run_job",
    "series_report",
    "utility_report",
]

# Queries that still run must not meet an interpreter that is gone.
atexit.register(_native.close)
