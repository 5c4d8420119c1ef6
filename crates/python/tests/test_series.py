"""Releases that follow each other."""

import pyarrow as pa

import datafusion_anonymize as da
from conftest import SEED, classes


def test_a_series_of_two_nights():
    session = da.connect()
    lake = session.sql(
        "SELECT age, zip, occupation, row_number() OVER () AS person FROM sample_census(rows => 2100, seed => 7)"
    ).to_arrow()
    options = {"k": 10, "quasi_identifiers": ["age", "zip"], "sensitive": ["occupation"], "privacy_unit": "person"}
    state = {
        "members": pa.table({"person": pa.array([], pa.binary()), "cohort": pa.array([], pa.int64())}),
        "last": pa.table({"cohort": pa.array([], pa.int64())}),
    }
    nights = []
    for tonight in (lake.slice(0, 2000), lake.slice(50, 2050)):
        series = {"series": state, "seed": SEED, **options}
        release = da.anonymize(tonight, **series).to_arrow()
        # A reader gives its rows once, and the release of a series is a pure function of them.
        assert da.anonymize(tonight.to_reader(), **series).to_arrow().equals(release)
        new = da.anonymize(tonight, **series, publish="members").to_arrow()
        new = new.cast(state["members"].schema)
        state = {"members": pa.concat_tables([state["members"], new]), "last": release}
        nights.append(release)
    assert all(classes(night, ["cohort"]).min() >= 10 for night in nights)
    report = da.series_report(*nights, k=10, sensitive=["occupation"]).to_pandas()
    held = report[report["holds"].notna()]
    assert len(held) and held["holds"].all()
