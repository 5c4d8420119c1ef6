"""The options of each function, from the one list that SQL, job files and the Rust builder have too."""

import inspect

from . import _native

#: Types of values, by the words with which the list describes them.
TYPES = {
    "a whole number": "int",
    "a number": "float",
    "a number or a list of numbers": "float | Sequence[float]",
    "a text": "str",
    "a text, or true or false": "str | bool",
    "true or false": "bool",
    "a list of columns": "str | Sequence[str]",
    "a column": "str",
    "a list of columns and numbers": "Mapping[str, float]",
    "a list of columns with their k": "Sequence[Mapping[str, Any]]",
    "a list of names and values": "Mapping[str, HierarchyLike]",
    "values with levels": "Mapping[Any, int] | Table",
    "a text or a whole number": "str | int",
    "the tables 'members' and 'last'": "Mapping[str, Table]",
}

#: Options that a report does not share with ``anonymize``: name, type, what it does.
OWN = {
    "anonymize": [],
    "privacy_report": [
        ("bucket", "str", "The column with the number of the bucket, in a release with a slicing method."),
        ("original", "Table", "The original table, with which the rows of a sliced table are compared."),
    ],
    "utility_report": [
        ("class_", "str", "The column whose majority a class should keep, as a classifier would want it."),
    ],
    "series_report": [
        ("register", "Table", "Who is in which release: persons, releases and their quasi-identifiers."),
    ],
}

#: What a function does and the tables it takes.
ABOUT = {
    "anonymize": (
        ["table"],
        "A release of a table: every published row shares its quasi-identifiers with at least k - 1 others.",
    ),
    "privacy_report": (
        ["*published"],
        "What a published table protects, measured on its rows: measure, column_name, value, target, holds.",
    ),
    "utility_report": (
        ["original", "*published"],
        "What a published table has lost, compared with the original: measure, column_name, value.",
    ),
    "series_report": (
        ["*releases"],
        "What releases that follow each other tell together.",
    ),
}

PROGRESS = (
    "progress",
    "Callable[[int, int | None], Any] | None",
    "Called now and then with the rows read and, where it is known, the number of all rows.",
)


def options(function):
    """Name, type and description of every option of a function."""
    shared = _native.definitions(function)
    known = [(name, TYPES.get(value, "Any"), description) for name, value, description in shared]
    return known + OWN[function] + [PROGRESS]


def documentation(function):
    """The docstring of a function."""
    lines = [ABOUT[function][1], "", "Options:"]
    for name, _, description in options(function):
        lines.append(f"    {name}: {description}")
    lines += ["", "A mistake raises InvalidOptions, which says what to write instead."]
    return "\n".join(lines)


def signature(function, bound):
    """The signature that ``help`` and notebooks show."""
    parameter = inspect.Parameter
    given = [parameter("self", parameter.POSITIONAL_OR_KEYWORD)] if bound else []
    for name in ABOUT[function][0]:
        kind = parameter.VAR_POSITIONAL if name.startswith("*") else parameter.POSITIONAL_ONLY
        given.append(parameter(name.lstrip("*"), kind))
    for name, annotation, _ in options(function):
        given.append(parameter(name, parameter.KEYWORD_ONLY, default=..., annotation=annotation))
    if bound:
        given[0] = given[0].replace(kind=parameter.POSITIONAL_ONLY)
    return inspect.Signature(given)


def described(function, bound=False):
    """Gives a Python function the documentation and the signature of an SQL function."""

    def describe(implementation):
        implementation.__doc__ = documentation(function)
        implementation.__signature__ = signature(function, bound)
        return implementation

    return describe
