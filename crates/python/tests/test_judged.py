"""k, l and t as another library counts them."""

import numpy
import pandas
import pyarrow as pa
import pytest

import datafusion_anonymize as da
from conftest import SEED

pycanon = pytest.importorskip("pycanon.anonymity")
METHODS = ["rounded", "layered", "mondrian", "mondrian_relaxed", "top_down", "bottom_up"]


def judge(release, quasi_identifiers, sensitive):
    """k, l and t of a release, missing values being a value."""
    frame = release.to_pandas().astype(object)
    frame = frame.where(frame.notna(), "missing").astype(str)
    k = pycanon.k_anonymity(frame, quasi_identifiers)
    l = pycanon.l_diversity(frame, quasi_identifiers, sensitive)
    t = pycanon.t_closeness(frame, quasi_identifiers, sensitive)
    return k, l, t


@pytest.mark.parametrize("method", METHODS)
def test_adult_keeps_k_l_and_t(method, adult):
    if method in ("bottom_up",):
        adult = adult.slice(0, 3000)
    quasi_identifiers = ["age", "education", "marital-status", "race", "sex"]
    options = {"quasi_identifiers": quasi_identifiers, "sensitive": ["occupation"], "method": method, "seed": SEED}
    k, l, _ = judge(da.anonymize(adult, k=10, l=4, **options), quasi_identifiers, ["occupation"])
    assert k >= 10 and l >= 4
    k, _, t = judge(da.anonymize(adult, k=10, t=0.5, **options), quasi_identifiers, ["occupation"])
    assert k >= 10 and t <= 0.5 + 1e-9


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_generated_tables_keep_k_l_and_t(method, seed):
    random = numpy.random.default_rng(seed)
    rows = int(random.integers(100, 800))
    frame = pandas.DataFrame(
        {
            "number": random.integers(0, random.integers(2, 100), rows),
            "word": random.choice(list("abcdefgh"), rows),
            "share": random.normal(size=rows).round(int(random.integers(0, 3))),
            "ill": random.choice(["a", "b", "c", "d", "e"], rows, p=[0.4, 0.3, 0.1, 0.1, 0.1]),
        }
    )
    table = pa.Table.from_pandas(frame, preserve_index=False)
    quasi_identifiers, k_wanted = ["number", "word", "share"], int(random.integers(2, 12))
    options = {"quasi_identifiers": quasi_identifiers, "sensitive": ["ill"], "method": method, "seed": SEED}
    k, l, _ = judge(da.anonymize(table, k=k_wanted, l=3, **options), quasi_identifiers, ["ill"])
    assert k >= k_wanted and l >= 3
    k, _, t = judge(da.anonymize(table, k=k_wanted, t=0.3, **options), quasi_identifiers, ["ill"])
    assert k >= k_wanted and t <= 0.3 + 1e-9
