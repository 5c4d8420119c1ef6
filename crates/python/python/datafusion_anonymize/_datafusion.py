"""The functions in a session of DataFusion for Python."""

import threading

from ._errors import InvalidOptions
from ._hierarchies import date_steps, intervals, prefixes
from ._session import default_session

_STEPS = {"intervals": intervals, "prefixes": prefixes, "date_steps": date_steps}

#: How many tables a function takes.
_INPUTS = {"anonymize": (1, 1), "privacy_report": (1, 2), "utility_report": (2, 3)}


def register(context, *, session=None):
    """Gives a ``datafusion.SessionContext`` the functions ``anonymize``, ``privacy_report`` and ``utility_report``.

    They take names of tables and then the options as one struct::

        SELECT * FROM anonymize('patients', {k: 10, quasi_identifiers: ['age'], sensitive: ['disease'],
                                             hierarchies: {age: {intervals: [5, 10]}}})

    The release is computed while the query is planned, by ``session`` and with its memory limit, not that of the context.
    """
    from datafusion import udtf

    for name in _INPUTS:
        context.register_udtf(udtf(_function(name, session), name, with_session=True))


def _function(name, own_session):
    def function(*arguments, session):
        values = [argument.python_value().as_py() for argument in arguments]
        return _in_a_thread(lambda: _call(name, values, session, own_session or default_session()))

    return function


def _call(name, values, context, session):
    import pyarrow.dataset
    from datafusion import Table

    least, most = _INPUTS[name]
    *tables, options = values or [None]
    if not least <= len(tables) <= most or not isinstance(options, dict):
        shown = "'original', 'published'" if least == 2 else "'patients'"
        raise InvalidOptions(
            f"{name} takes names of tables and then the options as one struct: write {name}({shown}, "
            "{k: 10, quasi_identifiers: ['age', 'zip']})"
        )
    if isinstance(options.get("hierarchies"), dict):
        options["hierarchies"] = {
            column: _hierarchy(column, given, context) for column, given in options["hierarchies"].items()
        }
    rows = getattr(session, name)(*(context.table(table) for table in tables), **options)
    return Table(pyarrow.dataset.dataset(rows.to_arrow()))


def _hierarchy(column, given, context):
    """``{intervals: [5, 10]}``, ``{table: 'levels'}`` or a path, as job files write it."""
    if not isinstance(given, dict):
        return given
    known = [name for name in (*_STEPS, "table") if given.get(name) is not None]
    if len(known) != 1:
        raise InvalidOptions(
            f"the hierarchy of column '{column}' must be one of {{intervals: [5, 10]}}, {{prefixes: [3, 2]}}, "
            "{date_steps: ['month', 'year']} and {table: 'levels'}"
        )
    value = given[known[0]]
    return context.table(value) if known == ["table"] else _STEPS[known[0]](*value)


def _in_a_thread(work):
    """DataFusion plans on a thread that must not wait for DataFusion."""
    outcome = []

    def run():
        try:
            outcome.append((work(), None))
        except BaseException as error:  # raised again where the caller is
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value
