"""Tables of every library go in and come out, with every type."""

import datetime
import decimal

import duckdb
import numpy
import pandas
import polars
import pyarrow as pa
import pytest

import datafusion_anonymize as da
from conftest import SEED, classes

HOUR = datetime.timezone(datetime.timedelta(hours=1))
MOMENT = datetime.datetime(2026, 3, 1, 12, 30)

#: A column of every type, as the values of twenty rows. What is missing stays missing.
KEPT = {
    "int8": pa.array([1, None] * 10, pa.int8()),
    "uint64": pa.array([2**64 - 1, None] * 10, pa.uint64()),
    "float32": pa.array([0.5, None] * 10, pa.float32()),
    "float64": pa.array([float("nan"), -0.0] * 10),
    "bool": pa.array([True, None] * 10),
    "string": pa.array(["ä", None] * 10),
    "large_string": pa.array(["ä", None] * 10, pa.large_string()),
    "string_view": pa.array(["longer than twelve bytes", None] * 10, pa.string_view()),
    "binary": pa.array([b"\x00\xff", None] * 10),
    "fixed_binary": pa.array([b"1234", None] * 10, pa.binary(4)),
    "dictionary": pa.array(["x", None] * 10).dictionary_encode(),
    "date32": pa.array([datetime.date(2026, 3, 1), None] * 10),
    "date64": pa.array([datetime.date(2026, 3, 1), None] * 10, pa.date64()),
    "time": pa.array([datetime.time(12, 30), None] * 10, pa.time64("us")),
    "timestamp_s": pa.array([MOMENT, None] * 10, pa.timestamp("s")),
    "timestamp_ns": pa.array([MOMENT, None] * 10, pa.timestamp("ns")),
    "timestamp_zone": pa.array([MOMENT.replace(tzinfo=HOUR), None] * 10, pa.timestamp("us", "Europe/Berlin")),
    "timestamp_offset": pa.array([MOMENT.replace(tzinfo=HOUR), None] * 10, pa.timestamp("us", "+01:00")),
    "duration": pa.array([datetime.timedelta(days=1), None] * 10),
    "decimal128": pa.array([decimal.Decimal("1234.50"), None] * 10, pa.decimal128(10, 2)),
    "decimal256": pa.array([decimal.Decimal("1234.50"), None] * 10, pa.decimal256(50, 2)),
    "list": pa.array([[1, 2], None] * 10),
    "struct": pa.array([{"a": 1}, None] * 10),
    "null": pa.nulls(20),
}


@pytest.mark.parametrize("kind", KEPT)
def test_kept_columns_of_every_type_come_back_as_they_were(kind):
    column = KEPT[kind]
    table = pa.table({"age": [30] * 20, "kept": column})
    release = da.anonymize(table, k=2, quasi_identifiers=["age"], keep=["kept"]).to_arrow()
    assert len(release) == 20
    published = release["kept"].combine_chunks()
    as_text = lambda values: sorted(str(value) for value in values)
    assert as_text(published.to_pylist()) == as_text(column.to_pylist())
    if not pa.types.is_dictionary(column.type):
        assert published.type == column.type


QUASI_IDENTIFIERS = {
    "int": pa.array([20, 21, 60, 61] * 5),
    "decimal": pa.array([decimal.Decimal("1.5"), decimal.Decimal("1.6"), decimal.Decimal("9"), None] * 5),
    "date": pa.array([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), datetime.date(2027, 1, 1), None] * 5),
    "zone": pa.array([MOMENT.replace(tzinfo=HOUR), None] * 10, pa.timestamp("us", "Europe/Berlin")),
    "string": pa.array(["a", "b", "c", None] * 5),
    "dictionary": pa.array(["a", "b", "c", None] * 5).dictionary_encode(),
    "string_view": pa.array(["a", "b", "c", None] * 5, pa.string_view()),
    "bool": pa.array([True, False, None, True] * 5),
    "float": pa.array([0.5, 0.6, 9.0, None] * 5),
}


@pytest.mark.parametrize("kind", QUASI_IDENTIFIERS)
def test_quasi_identifiers_of_every_type_are_generalized(kind):
    table = pa.table({"quasi": QUASI_IDENTIFIERS[kind], "ill": ["x", "y"] * 10})
    release = da.anonymize(table, k=6, quasi_identifiers=["quasi"], sensitive=["ill"]).to_arrow()
    assert len(release) == 20
    assert classes(release, ["quasi"]).min() >= 6


def inputs(table):
    """The same table in every library."""
    return {
        "pyarrow.Table": table,
        "pyarrow.RecordBatch": table.combine_chunks().to_batches()[0],
        "pyarrow.RecordBatchReader": table.to_reader(max_chunksize=100),
        "pandas": table.to_pandas(),
        "pandas of arrow": table.to_pandas(types_mapper=pandas.ArrowDtype),
        "polars": polars.DataFrame(table),
        "duckdb": duckdb.from_arrow(table),
        "datafusion": _datafusion(table),
        "result": _result(table),
    }


def _result(table):
    session = da.connect()
    session.register("census", table)
    return session.sql("SELECT * FROM census")


def _datafusion(table):
    datafusion = pytest.importorskip("datafusion")
    return datafusion.SessionContext().from_arrow(table)


LIBRARIES = [
    "pyarrow.Table", "pyarrow.RecordBatch", "pyarrow.RecordBatchReader", "pandas", "pandas of arrow", "polars", "duckdb",
    "datafusion", "result",
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_the_same_release(library, census, roles):
    # pandas has no whole numbers with missing values.
    table = census.filter(census["age"].is_valid())
    expected = da.anonymize(table, **roles).to_arrow()
    release = da.anonymize(inputs(table)[library], **roles).to_arrow()
    texts = lambda table: [column.cast(pa.string()) for column in table.columns]
    assert [column.to_pylist() for column in texts(release)] == [column.to_pylist() for column in texts(expected)]


def test_a_release_goes_into_every_library(census, roles):
    release = da.anonymize(census, **roles)
    expected = release.to_arrow()
    assert len(release) == len(census) == len(expected)
    assert release.to_polars().height == len(census)
    assert polars.DataFrame(release).height == len(census)
    assert len(release.to_pandas()) == len(census)
    assert pa.table(release).equals(expected)
    assert pa.RecordBatchReader.from_stream(release).read_all().equals(expected)
    assert duckdb.sql("SELECT count(*) FROM release").fetchall() == [(len(census),)]
    assert release.column_names == expected.column_names


def test_a_temporary_result_is_not_kept(census, roles):
    # The consumer is the only one who can read it: batches leave one by one.
    rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(da.anonymize(census, **roles)))
    assert rows == len(census)


def test_a_row_index_of_pandas_is_a_column_without_a_role(census, roles):
    frame = census.to_pandas().rename_axis("person").set_index(census.to_pandas().index + 7)
    frame.index.name = "person"
    with pytest.raises(da.InvalidOptions, match="columns without a role: 'person'"):
        da.anonymize(frame.sort_index(ascending=False), **roles)


def test_a_table_in_one_batch_is_divided(roles):
    ages = numpy.arange(100_000) % 90
    table = pa.table({"age": ages, "ill": ages % 7})
    release = da.anonymize(table, k=10, quasi_identifiers=["age"], sensitive=["ill"])
    assert len(release) == 100_000


def test_an_empty_table_cannot_be_released():
    table = pa.table({"age": pa.array([], pa.int64()), "ill": pa.array([], pa.string())})
    try:
        assert len(da.anonymize(table, k=2, quasi_identifiers=["age"], sensitive=["ill"])) == 0
    except da.Unsatisfiable as error:
        assert "rows" in str(error)


def test_what_is_no_table_is_refused_with_what_to_give():
    with pytest.raises(da.InvalidOptions, match="__arrow_c_stream__.*this is a dict"):
        da.anonymize({"age": [1, 2]}, k=2, quasi_identifiers=["age"])


def test_a_failing_reader_is_told_without_its_message(roles):
    def batches():
        yield pa.record_batch({"age": [1, 2]})
        raise ValueError("Anna Schmidt")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("age", pa.int64())]), batches())
    with pytest.raises(da.QueryFailed) as error:
        da.anonymize(reader, k=2, quasi_identifiers=["age"])
    assert "Anna" not in str(error.value) and "withheld" in str(error.value)
    assert SEED not in str(error.value)
