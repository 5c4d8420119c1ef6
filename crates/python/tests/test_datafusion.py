"""The functions in a session of DataFusion for Python, as far as its table functions go."""

import pytest

import datafusion_anonymize as da
from conftest import classes

datafusion = pytest.importorskip("datafusion")

OPTIONS = (
    "{k: 10, quasi_identifiers: ['age', 'zip', 'education'], sensitive: ['occupation'], "
    "hierarchies: {age: {intervals: [5, 10]}, zip: {prefixes: [3, 2]}}}"
)


@pytest.fixture
def context(census):
    context = datafusion.SessionContext()
    context.from_arrow(census, name="patients")
    da.register(context)
    return context


def test_a_release_is_a_table(context):
    release = context.sql(f"SELECT * FROM anonymize('patients', {OPTIONS})").to_arrow_table()
    assert len(release) == 2000
    assert classes(release, ["age", "zip", "education"]).min() >= 10
    joined = context.sql(f"SELECT count(*) AS n FROM anonymize('patients', {OPTIONS}) WHERE occupation = 'Sales'")
    assert joined.to_arrow_table()["n"].to_pylist()[0] > 0
    report = context.sql("SELECT * FROM privacy_report('patients', {k: 10, quasi_identifiers: ['age', 'zip']})")
    assert "k" in report.to_arrow_table()["measure"].to_pylist()


def test_mistakes_are_told(context):
    for query, words in [
        ("SELECT * FROM anonymize('patients', {k: 5000, quasi_identifiers: ['age']})", "columns without a role"),
        ("SELECT * FROM anonymize('patients', {k: NULL, quasi_identifiers: ['age']})", "option 'k' is NULL"),
        ("SELECT * FROM anonymize('patients')", "options as one struct"),
        ("SELECT * FROM anonymize('patients', {hierarchies: {age: {steps: [5]}}})", "intervals: [5, 10]"),
    ]:
        with pytest.raises(Exception, match="InvalidOptions") as error:
            context.sql(query).to_arrow_table()
        assert words in str(error.value)


def test_what_does_not_work_yet(context):
    # docs/python.md tells these limits: a day on which one of them works is a day to mend the page.
    with pytest.raises(Exception, match="Unsupported function argument type"):
        context.sql("SELECT * FROM anonymize('patients', k => 10)")
    with pytest.raises(Exception, match="should only return one column"):
        context.sql(f"SELECT * FROM anonymize((SELECT * FROM patients), {OPTIONS})")
