"""Rows of a query."""

import html

_SHOWN = 10


class Result:
    """Rows of a release, a report or a query, for anything that reads Arrow.

    ``pyarrow.table(result)``, ``polars.DataFrame(result)`` and DuckDB's ``FROM result`` read it directly. Rows are delivered as
    they are made, and kept as long as the object is, so that it can be read again.
    """

    def __init__(self, rows, session):
        self._rows = rows
        self._session = session

    def __arrow_c_stream__(self, requested_schema=None):
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self):
        return self._rows.__arrow_c_schema__()

    def to_arrow(self):
        """A ``pyarrow.Table``."""
        pyarrow = _needed("pyarrow", "to_arrow")
        self._rows.collect()
        return pyarrow.table(self)

    def to_pandas(self, **options):
        """A ``pandas.DataFrame``; options are those of ``pyarrow.Table.to_pandas``."""
        _needed("pandas", "to_pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self):
        """A ``polars.DataFrame``."""
        polars = _needed("polars", "to_polars")
        self._rows.collect()
        return polars.DataFrame(self)

    def write_parquet(self, path, partition_by=()):
        """Writes Parquet files that appear when the last row is written, or not at all. Returns the number of rows."""
        return self._session.write_parquet(self, path, partition_by)

    @property
    def column_names(self):
        """The names of the columns."""
        return [name for name, _ in self._rows.columns()]

    def __len__(self):
        return self._rows.collect()

    def __repr__(self):
        names, rows, footer = self._shown()
        lines = [names] + [["NULL" if cell is None else cell for cell in row] for row in rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
        text = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        text.insert(1, "-+-".join("-" * width for width in widths))
        return "\n".join(text + [footer])

    def _repr_html_(self):
        names, rows, footer = self._shown()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        cells = ("".join(f"<td>{'NULL' if cell is None else html.escape(cell)}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{html.escape(footer)}</p>"

    def _shown(self):
        rows = self._rows.head(_SHOWN + 1)
        known = self._rows.known_length()
        if len(rows) <= _SHOWN:
            footer = f"{len(rows)} rows"
        elif known is not None:
            footer = f"the first {_SHOWN} of {known} rows"
        else:
            footer = f"the first {_SHOWN} rows"
        return self.column_names, rows[:_SHOWN], footer


def _needed(package, method):
    try:
        return __import__(package)
    except ImportError as error:
        raise ImportError(
            f"{method}() needs {package}: pip install 'datafusion-anonymize[{package}]'"
        ) from error
