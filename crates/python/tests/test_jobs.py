"""Release jobs and the page about a release."""

import json

import pyarrow.parquet as parquet
import pytest

import datafusion_anonymize as da
from conftest import SEED, classes

JOB = """
name = "census"
query = "SELECT age, sex, education, zip, occupation, person_id FROM sample_census(rows => {rows}, seed => 3)"

[anonymize]
k = 10
quasi_identifiers = ["age", "sex", "education"]
sensitive = ["occupation"]
identifiers = ["person_id"]
keep = ["zip"]
{seed}
hierarchies = {{ age = {{ intervals = [5, 10, 20] }} }}

[output]
path = "released"

[checks]
max_loss = {max_loss}
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setenv("CENSUS_SEED", SEED)

    def write(rows=2000, max_loss=0.9, seed='seed = { env = "CENSUS_SEED" }'):
        path = tmp_path / "job.toml"
        path.write_text(JOB.format(rows=rows, max_loss=max_loss, seed=seed))
        return path

    return write


def test_a_job_publishes_and_returns_the_manifest(job, tmp_path):
    phases = []
    manifest = da.run_job(job(), progress=lambda phase, read, rows: phases.append(phase))
    assert manifest["counts"] == {"rows_original": 2000, "rows_published": 2000, "rows_suppressed": 0}
    pointer = json.loads((tmp_path / "released" / "manifest.json").read_text())
    assert pointer == manifest
    assert SEED not in json.dumps(manifest)
    published = parquet.read_table(tmp_path / "released" / manifest["tables"][0]["location"])
    assert classes(published, ["age", "sex", "education"]).min() >= 10
    assert set(phases) <= {"preparing", "anonymizing", "verifying", "publishing"}


def test_a_dry_run_publishes_nothing(job, tmp_path):
    assert da.run_job(job(), dry_run=True)["counts"]["rows_published"] == 2000
    assert not (tmp_path / "released").exists()


def test_a_release_that_breaks_its_checks_is_not_published(job, tmp_path):
    first = da.run_job(job())
    with pytest.raises(da.NotPublished, match="not published, because"):
        da.run_job(job(max_loss=0.0))
    assert json.loads((tmp_path / "released" / "manifest.json").read_text()) == first


def test_mistakes_in_a_job_are_invalid_options(job, tmp_path):
    with pytest.raises(da.InvalidOptions, match="no.toml"):
        da.run_job(tmp_path / "no.toml")
    path = job()
    path.write_text(path.read_text().replace("k = 10", "kk = 10"))
    with pytest.raises(da.InvalidOptions, match="line 6.*kk"):
        da.run_job(path)


def test_a_job_without_a_seed_warns(job):
    with pytest.warns(UserWarning, match="no seed"):
        da.run_job(job(seed=""))


def test_a_callback_that_raises_stops_the_job(job, tmp_path):
    def refuse(phase, read, rows):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        da.run_job(job(rows=2_000_000), progress=refuse)
    left = [path.name for path in (tmp_path / "released").rglob("*")] if (tmp_path / "released").exists() else []
    assert "manifest.json" not in left and not any(name.endswith(".parquet") for name in left)


def test_jobs_run_in_a_session(job):
    session = da.connect(memory_limit="100kB")
    with pytest.raises(da.AnonymizeError, match="[Rr]esources exhausted|emory"):
        da.run_job(job(), session=session)


def test_a_page_is_made_of_a_release(job, tmp_path):
    path = job()
    with pytest.raises(da.AnonymizeError, match="there is no release"):
        da.report(path)
    da.run_job(path)
    page = da.report(path, title="Our census")
    assert page.startswith("<!") and "Our census" in page
    assert page._repr_html_().startswith("<iframe srcdoc=")
    page.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_a_page_is_made_of_two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = da.connect(seed=SEED)
    session.sql("COPY (SELECT age, zip, occupation FROM sample_census(rows => 2000, seed => 7)) TO 'census.parquet'")
    hierarchies = {"age": da.intervals(5, 10), "zip": da.prefixes(3, 2)}
    roles = {"k": 10, "quasi_identifiers": ["age", "zip"], "sensitive": ["occupation"]}
    session.anonymize("census.parquet", **roles, hierarchies=hierarchies).write_parquet("release.parquet")
    page = da.report(
        original="census.parquet", published="release.parquet", title="Two files", **roles, hierarchies=hierarchies
    )
    assert page.startswith("<!") and "Two files" in page
    for wrong in [{}, {"original": "census.parquet"}, {"job": "job.toml", "k": 10}]:
        with pytest.raises(da.InvalidOptions, match="report takes a job"):
            da.report(**wrong)
