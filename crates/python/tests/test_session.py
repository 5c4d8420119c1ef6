"""Sessions: SQL, names, limits, files that are there whole or not at all."""

import os

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import datafusion_anonymize as da
from conftest import SEED

RELEASE = (
    "SELECT * FROM anonymize(census, k => 10, quasi_identifiers => ['age', 'zip', 'education'], "
    "sensitive => ['occupation'])"
)


@pytest.fixture
def session(census):
    session = da.connect(seed=SEED)
    session.register("census", census)
    return session


def test_sql_and_the_function_agree(session, census, roles):
    of_sql = session.sql(RELEASE).to_arrow()
    assert of_sql.equals(session.anonymize("census", **roles).to_arrow())
    assert of_sql.equals(da.anonymize(census, **roles).to_arrow())


def test_statements_without_rows_return_nothing(session):
    assert session.sql("SET anonymize.default_k = 10") is None
    assert session.sql("CREATE VIEW old AS SELECT * FROM census WHERE age > 60") is None
    assert session.sql("SELECT count(*) AS n FROM old").to_arrow()["n"].to_pylist()[0] > 0
    options = {"quasi_identifiers": ["age", "zip", "education"], "sensitive": ["occupation"]}
    assert len(session.anonymize("census", **options)) == 2000


def test_names_can_be_used_again(session):
    session.register("census", pa.table({"a": [1]}))
    assert session.sql("SELECT * FROM census").column_names == ["a"]
    assert session.deregister("census") and not session.deregister("census")
    with pytest.raises(da.InvalidOptions, match="census"):
        session.sql("SELECT * FROM census")


def test_no_table_of_a_call_stays(session, census, roles):
    session.anonymize(census, **roles)
    with pytest.raises(da.InvalidOptions):
        session.anonymize(census, k=1)
    names = session.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'python'")
    assert len(names) == 0


def test_files_are_read_by_name_and_path(session, census, roles, tmp_path):
    path = tmp_path / "census of today.parquet"
    parquet.write_table(census, path)
    expected = da.anonymize(census, **roles).to_arrow().to_pylist()
    session.register("lake", path)
    for lake in ["lake", path, str(path), session.read_parquet(path)]:
        assert session.anonymize(lake, **roles).to_arrow().to_pylist() == expected
    assert session.read_parquet(path).to_arrow().num_rows == len(census)
    with pytest.raises(da.AnonymizeError, match="nowhere"):
        session.anonymize(tmp_path / "nowhere.parquet", **roles)


def test_a_release_is_written_as_a_whole(session, roles, tmp_path):
    path = tmp_path / "release.parquet"
    release = session.anonymize("census", **roles)
    assert release.write_parquet(path) == 2000
    assert parquet.read_table(path).num_rows == len(release) == 2000
    assert session.write_parquet(session.sql(RELEASE), tmp_path / "parts", partition_by="occupation") == 2000
    assert any(name.startswith("occupation=") for name in os.listdir(tmp_path / "parts"))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_fails_leaves_the_files_that_were_there(session, census, tmp_path):
    path = tmp_path / "release.parquet"
    session.sql(RELEASE).write_parquet(path)
    before = path.read_bytes()
    with pytest.raises(da.Unsatisfiable):
        session.write_parquet(session.sql(RELEASE.replace("k => 10", "k => 5000")), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["release.parquet"]


def test_a_release_with_a_short_seed_is_not_written(census, roles, tmp_path):
    session = da.connect()
    release = session.anonymize(census, **{**roles, "seed": 42})
    with pytest.raises(da.InvalidOptions, match="seed"):
        release.write_parquet(tmp_path / "release.parquet")
    session.sql("SET anonymize.allow_short_seeds = true")
    release.write_parquet(tmp_path / "release.parquet")


def test_copy_in_sql_runs_at_once(session, tmp_path):
    assert len(session.sql(f"COPY ({RELEASE}) TO '{tmp_path}/release.parquet'")) == 1
    assert parquet.read_table(tmp_path / "release.parquet").num_rows == 2000


def test_memory_limits_hold_and_are_told(census, roles, tmp_path):
    with pytest.raises(da.ResourcesExhausted) as error:
        da.connect(memory_limit="100 kB").anonymize(census, **roles)
    assert isinstance(error.value, MemoryError)
    # A limit changes where rows wait, and nothing else.
    limited = da.connect(memory_limit="8MB", temp_dir=tmp_path, seed=SEED)
    rows = "SELECT age, zip, education, occupation FROM sample_census(rows => 200000, seed => 7)"
    release = (
        f"SELECT * FROM anonymize(({rows}), k => 10, method => 'rounded', "
        "quasi_identifiers => ['age', 'zip', 'education'], sensitive => ['occupation'])"
    )
    assert limited.sql(release).to_arrow().equals(da.connect(seed=SEED).sql(release).to_arrow())
    del limited
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", ["", "two", "2XB", 0, -1, 1.5, True])
def test_sizes_that_mean_nothing_are_refused(size):
    with pytest.raises(da.InvalidOptions, match="memory_limit: write a number of bytes"):
        da.connect(memory_limit=size)


@pytest.mark.parametrize("option", ["target_partitions", "batch_size"])
def test_counts_of_nothing_are_refused(option):
    with pytest.raises(da.InvalidOptions, match=f"{option}: write a whole number from 1"):
        da.connect(**{option: 0})


def test_short_seeds_of_sessions_are_kept_to_the_rules(census, roles, tmp_path):
    session = da.connect(seed=7)
    release = session.anonymize(census, **{name: roles[name] for name in roles if name != "seed"})
    with pytest.raises(da.InvalidOptions, match="seed"):
        release.write_parquet(tmp_path / "release.parquet")


def test_results_show_their_first_rows(session):
    result = session.sql("SELECT CAST(NULL AS INT) AS a, '<b>' AS c")
    assert repr(result).splitlines() == ["a    | c", "-----+----", "NULL | <b>", "1 rows"]
    assert "&lt;b&gt;" in result._repr_html_()
    release = session.sql(RELEASE)
    assert repr(release).endswith("the first 10 rows")
    assert len(release) == 2000 and repr(release).endswith("the first 10 of 2000 rows")


def test_results_can_be_read_again(session):
    release = session.sql(RELEASE)
    first = next(iter(pa.RecordBatchReader.from_stream(release)))
    assert first.num_rows > 0
    assert release.to_arrow().num_rows == release.to_arrow().num_rows == 2000


def test_reports_see_the_published_rows(session, census, roles):
    release = session.anonymize("census", **roles)
    target = {"quasi_identifiers": roles["quasi_identifiers"], "sensitive": ["occupation"], "k": 10}
    report = session.privacy_report(release, **target).to_pandas().set_index("measure")
    assert bool(report.loc["k", "holds"]) and report.loc["violating_rows", "value"] == 0
    raw = session.privacy_report("census", **target).to_pandas().set_index("measure")
    assert not bool(raw.loc["k", "holds"])
    loss = session.utility_report("census", release, quasi_identifiers=roles["quasi_identifiers"]).to_pandas()
    assert loss.set_index("measure").loc["rows_published", "value"] == 2000


def test_two_tables_are_reported_together(session):
    options = {"k": 5, "alpha": 0.5, "quasi_identifiers": ["age", "zip", "education"], "sensitive": ["occupation"]}
    halves = [
        session.anonymize("census", method="alpha_k", publish=half, **options)
        for half in ["quasi_identifiers", "sensitive"]
    ]
    report = session.privacy_report(*halves, sensitive=["occupation"], k=5).to_pandas().set_index("measure")
    assert bool(report.loc["k", "holds"])


def test_a_table_is_read_in_cells(session, roles):
    session.sql("SET anonymize.cells = 4")
    table = session.sql("SELECT * FROM census").to_arrow()
    reader = table.to_reader(max_chunksize=100)
    assert len(session.anonymize(reader, **roles)) == 2000


def test_object_stores_are_found_by_their_urls():
    session = da.connect()
    with pytest.raises(da.AnonymizeError) as error:
        session.register("lake", "nonsense://bucket/key.parquet")
    assert "nonsense" in str(error.value)


def test_partitions_are_named_by_plain_columns(session, tmp_path):
    release = session.sql(RELEASE.replace("SELECT *", "SELECT occupation AS \"a b\", age"))
    with pytest.raises(da.InvalidOptions, match="partition_by"):
        release.write_parquet(tmp_path / "parts", partition_by="a b")
