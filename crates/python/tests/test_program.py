"""The program and the package make the same release of the same rows with the same seed."""

import io
import os
import subprocess

import pandas
import pyarrow.parquet as parquet
import pytest

import datafusion_anonymize as da
from conftest import SEED


@pytest.mark.parametrize("method", ["rounded", "layered", "mondrian", "kaim"])
def test_the_program_makes_the_same_release(method, census, roles, tmp_path):
    program = os.environ.get("ANONYMIZE_PROGRAM")
    if not program:
        pytest.skip("ANONYMIZE_PROGRAM is not set")
    parquet.write_table(census, tmp_path / "census.parquet")
    sql = (
        "SELECT * FROM anonymize((SELECT * FROM 'census.parquet'), k => 10, "
        f"quasi_identifiers => ['age', 'zip', 'education'], sensitive => ['occupation'], seed => '{SEED}', "
        f"method => '{method}', hierarchies => {{age: intervals(5, 10, 20), zip: prefixes(3, 2)}})"
    )
    told = subprocess.run(
        [program, "--quiet", "--format", "csv", "-c", sql], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    of_program = pandas.read_csv(io.StringIO(told.stdout), dtype=str, keep_default_na=False)
    hierarchies = {"age": da.intervals(5, 10, 20), "zip": da.prefixes(3, 2)}
    release = da.anonymize(census, **roles, method=method, hierarchies=hierarchies)
    of_package = pandas.DataFrame(release.to_arrow().to_pylist()).fillna("").astype(str)
    assert of_package.values.tolist() == of_program.values.tolist()
