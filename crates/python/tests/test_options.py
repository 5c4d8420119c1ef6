"""Keyword arguments are the options of SQL: names, documentation, messages."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pandas
import pyarrow as pa
import pytest

import datafusion_anonymize as da
from datafusion_anonymize import _options, _stubs
from conftest import SEED

FUNCTIONS = ["anonymize", "privacy_report", "utility_report", "series_report"]


def test_the_stubs_are_those_of_the_options():
    written = Path(da.__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    assert written == _stubs.stubs(), "run python -m datafusion_anonymize._stubs > …/__init__.pyi"


def test_every_kind_of_option_has_a_type():
    kinds = {value for function in FUNCTIONS for _, value, _ in da._native.definitions(function)}
    assert kinds <= set(_options.TYPES), "add a type to _options.TYPES"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_signatures_list_the_options_of_sql(function, census):
    inputs = [census] * len(_options.ABOUT[function][0])
    with pytest.raises(da.InvalidOptions) as error:
        getattr(da, function)(*inputs, no_such_option=1)
    listed = re.search(r"the options are (.*)$", str(error.value))[1].split(", ")
    for owner in (da, da.Session):
        signature = inspect.signature(getattr(owner, function))
        keywords = [name for name, it in signature.parameters.items() if it.kind is it.KEYWORD_ONLY]
        assert {name.rstrip("_") for name in keywords} - {"progress"} == set(listed)
        assert all(name in getattr(owner, function).__doc__ for name in keywords)


def test_mypy_understands_the_package(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pyarrow as pa\n"
        "from datafusion_anonymize import anonymize, connect, intervals, utility_report\n"
        "table = pa.table({'age': [1, 2]})\n"
        "release = anonymize(table, k=2, quasi_identifiers=['age'], hierarchies={'age': intervals(5, 10)})\n"
        "frame: pa.Table = release.to_arrow()\n"
        "report = connect(memory_limit='2GB').utility_report(table, release, quasi_identifiers='age')\n"
        "rows: int = len(report)\n"
    )
    mistake = tmp_path / "mistake.py"
    mistake.write_text("import datafusion_anonymize as da\nda.anonymize('t', k='ten')\nda.anonymize('t', kk=10)\n")
    mypy = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--strict", "--cache-dir", tmp_path / "cache"]
    checked = subprocess.run([*mypy, program], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    checked = subprocess.run([*mypy, mistake], capture_output=True, text=True)
    assert 'Argument "k"' in checked.stdout and '"kk"' in checked.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 1}, "option 'k': 1 hides nobody; the smallest class has at least 2 rows, write k => 10"),
        ({"k": None}, "option 'k' is NULL: leave it out, or write a whole number, as in k => 10"),
        ({"k": "ten"}, "option 'k' must be a whole number, as in k => 10"),
        ({"k": 10**30}, "option 'k' must be a whole number, as in k => 10"),
        ({"kk": 10}, "there is no option 'kk'"),
        ({"t": float("nan")}, "option 't' must be a number"),
        ({"sensitive": []}, "columns without a role: 'occupation'"),
        ({"quasi_identifiers": ["agee"]}, "agee"),
        ({"hierarchies": {"age": da.date_steps("month")}}, "date_steps() needs dates or timestamps"),
        ({"hierarchies": {"zip": object()}}, "option 'hierarchies': a object means nothing here"),
        ({"k": object()}, "option 'k': a object means nothing here"),
    ],
)
def test_mistakes_are_told_in_the_words_of_sql(options, words, census, roles):
    with pytest.raises(da.InvalidOptions) as error:
        da.anonymize(census, **{**roles, **options})
    assert words in str(error.value)
    assert isinstance(error.value, ValueError) and isinstance(error.value, da.AnonymizeError)


def test_the_words_are_those_of_sql(census, roles):
    session = da.connect()
    session.register("census", census)
    with pytest.raises(da.InvalidOptions) as of_python:
        session.anonymize("census", **{**roles, "k": 1})
    with pytest.raises(da.InvalidOptions) as of_sql:
        session.sql(
            "SELECT * FROM anonymize(census, k => 1, quasi_identifiers => ['age', 'zip', 'education'], "
            "sensitive => ['occupation'])"
        )
    assert str(of_python.value) == str(of_sql.value)


@pytest.mark.parametrize("options", [{"k": 5000}, {"l": 500}, {"method": "mondrian", "k": 2001}])
def test_what_no_release_can_keep_is_an_error_of_its_own(options, census, roles):
    with pytest.raises(da.Unsatisfiable) as error:
        da.anonymize(census, **{**roles, **options})
    assert not isinstance(error.value, ValueError)


def test_values_of_other_libraries_are_values(census, roles):
    expected = da.anonymize(census, **roles).to_arrow()
    given = {
        **roles,
        "k": numpy.int64(10),
        "quasi_identifiers": pandas.Index(["age", "zip", "education"]),
        "sensitive": ("occupation",),
    }
    assert da.anonymize(census, **given).to_arrow().equals(expected)
    da.anonymize(census, **{**roles, "alpha": numpy.float32(0.9), "class_id": numpy.bool_(True)})


def test_seeds_are_texts_or_numbers_of_any_size(census, roles):
    releases = {seed: da.anonymize(census, **{**roles, "seed": seed}).to_arrow() for seed in [SEED, 7, 10**40]}
    assert releases[7].equals(da.anonymize(census, **{**roles, "seed": "7"}).to_arrow())
    assert releases[10**40].equals(da.anonymize(census, **{**roles, "seed": str(10**40)}).to_arrow())


def test_hierarchies_are_steps_tables_dicts_or_paths(census, roles, tmp_path):
    leaves = sorted({value for value in census["education"].to_pylist() if value})
    kinds = {leaf: ["college" if leaf in ("Bachelors", "Masters", "Doctorate") else "school", "*"] for leaf in leaves}
    table = pa.table({"leaf": leaves, "kind": [kinds[leaf][0] for leaf in leaves], "top": ["*"] * len(leaves)})
    path = tmp_path / "education.csv"
    path.write_text("".join(f"{leaf};{';'.join(levels)}\n" for leaf, levels in kinds.items()))
    steps = {"age": da.intervals(5, 10, 20), "zip": da.prefixes(3, 2)}
    session = da.connect()
    session.register("education_levels", table)
    releases = [
        session.anonymize(census, **roles, hierarchies={**steps, "education": education}).to_arrow()
        for education in [table, kinds, path, str(path), session.sql("SELECT * FROM education_levels")]
    ]
    assert all(release.equals(releases[0]) for release in releases)
    assert set(releases[0]["education"].to_pylist()) - set(leaves) <= {"college", "school", "*", None}
    assert repr(steps["age"]) == "intervals(5, 10, 20)" and steps["age"] == da.intervals(5, 10, 20)


def test_a_hierarchy_of_uneven_levels_is_refused(census, roles):
    with pytest.raises(da.InvalidOptions, match="as many levels for every leaf"):
        da.anonymize(census, **roles, hierarchies={"education": {"a": ["x", "*"], "b": ["*"]}})


def test_options_of_several_parts(census):
    release = da.anonymize(
        census,
        constraints=[{"columns": ["age", "zip"], "k": 5}, {"columns": ["education"], "k": 10}],
        sensitive="occupation",
    )
    assert len(release) == len(census)
    report = da.utility_report(census, release, quasi_identifiers=["age", "zip", "education"], class_="occupation")
    assert "cm" in report.to_arrow()["measure"].to_pylist()


def test_no_error_quotes_a_cell(census):
    session = da.connect()
    session.register("people", pa.table({"name": ["Anna Schmidt"], "age": ["forty"]}))
    with pytest.raises(da.AnonymizeError) as error:
        session.sql("SELECT CAST(age AS INT) FROM people").to_arrow()
    assert "forty" not in str(error.value) and "withheld" in str(error.value)
    with pytest.raises(da.AnonymizeError) as error:
        session.anonymize(
            session.sql("SELECT CAST(age AS INT) AS age FROM people"), k=2, quasi_identifiers=["age"]
        )
    assert "forty" not in str(error.value)


def test_no_seed_shows_anywhere(census, roles):
    session = da.connect(seed=SEED)
    release = session.anonymize(census, **{**roles, "seed": SEED + " of my own"})
    shown = [repr(release), repr(release.to_arrow().schema), repr(session)]
    for options in [{"k": 1}, {"k": 5000}, {"kk": 1}]:
        with pytest.raises(da.AnonymizeError) as error:
            session.anonymize(census, **{**roles, "seed": SEED, **options})
        shown.append(str(error.value))
    assert not any(SEED in text for text in shown)
