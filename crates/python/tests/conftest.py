"""Tables that the tests share."""

import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

import datafusion_anonymize as da

SEED = "a seed of sixteen characters or more"


@pytest.fixture(scope="session")
def census():
    """Made-up rows: age, zip, education, occupation."""
    session = da.connect()
    # pyarrow cannot filter string views.
    texts = ", ".join(f"arrow_cast({name}, 'Utf8') AS {name}" for name in ["zip", "education", "occupation"])
    rows = session.sql(f"SELECT age, {texts} FROM sample_census(rows => 2000, seed => 7, missing => 0.02)")
    return rows.to_arrow()


@pytest.fixture(scope="session")
def roles():
    return {"k": 10, "quasi_identifiers": ["age", "zip", "education"], "sensitive": ["occupation"], "seed": SEED}


@pytest.fixture
def adult():
    """The Adult census, as the other tests of the project read it."""
    directory = os.environ.get("ADULT_DIR")
    if not directory:
        pytest.skip("ADULT_DIR is not set")
    import pandas

    table = pandas.read_csv(os.path.join(directory, "adult.csv"), sep=";")
    wanted = ["age", "education", "marital-status", "race", "sex", "occupation"]
    return pa.Table.from_pandas(table[wanted], preserve_index=False)


@pytest.fixture
def process():
    """Runs a script in a process of its own."""

    def run(script, **options):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300, **options
        )

    return run


def classes(table, quasi_identifiers):
    """The sizes of the groups of rows that look alike."""
    frame = table.to_pandas()
    return frame.groupby(quasi_identifiers, dropna=False, observed=True).size()
