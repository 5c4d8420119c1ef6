"""This package and others on the same rows: time and loss, k = 10, as a table in Markdown.

    pip install anjana anonypy pandas
    ADULT_DIR=… python crates/python/benches/peers.py [--rows 1000000] [--runs 3] [--limit 600]

Every run is a process of its own, in turn, and its clock runs from one pandas table to another. The loss is the mean over all
cells of the quasi-identifiers: a range by its width, a set or a node by its leaves beyond the first, both as a share of the
column's; a row that is left out counts 1. One function measures the releases of all.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import pandas

K = 10
NUMBERS = {"age"}
QUASI_IDENTIFIERS = ["age", "sex", "race", "marital_status", "education", "native_country"]
SENSITIVE = "occupation"


def table(rows):
    """Adult, or so many made-up rows."""
    if rows == 0:
        frame = pandas.read_csv(os.path.join(os.environ["ADULT_DIR"], "adult.csv"), sep=";")
        return frame.rename(columns=lambda name: name.replace("-", "_"))[[*QUASI_IDENTIFIERS, SENSITIVE]]
    from datafusion_anonymize import connect

    columns = ", ".join([*QUASI_IDENTIFIERS, SENSITIVE])
    frame = connect().sql(f"SELECT {columns} FROM sample_census(rows => {rows}, seed => 7)").to_pandas()
    return frame.fillna("unknown").astype({name: str for name in frame if name not in NUMBERS})


def levels(frame):
    """A hierarchy for each column that all can use: ages in steps, other columns kept or given up."""
    ages = sorted(frame["age"].unique())
    step = lambda width: [f"{age // width * width}-{age // width * width + width - 1}" for age in ages]
    found = {"age": [ages, step(5), step(10), step(20), ["*"] * len(ages)]}
    for column in QUASI_IDENTIFIERS[1:]:
        values = sorted(frame[column].unique())
        found[column] = [values, ["*"] * len(values)]
    return found


def started():
    return time.perf_counter(), time.process_time()


def since(began):
    """Seconds on the wall, and of all threads on processors."""
    return time.perf_counter() - began[0], time.process_time() - began[1]


def of_this_package(frame, method, with_levels):
    import datafusion_anonymize as da

    hierarchies = {}
    if with_levels:
        hierarchies = {
            column: da.intervals(5, 10, 20) if column == "age" else dict(zip(*lists))
            for column, lists in levels(frame).items()
        }
    began = started()
    release = da.anonymize(
        frame, k=K, method=method, quasi_identifiers=QUASI_IDENTIFIERS, sensitive=[SENSITIVE], hierarchies=hierarchies
    ).to_pandas()
    return since(began), release


def of_anonypy(frame):
    import anonypy

    frame = frame.astype({column: "category" for column in frame if column not in NUMBERS})
    began = started()
    preserver = anonypy.Preserver(frame, QUASI_IDENTIFIERS, SENSITIVE)
    groups = pandas.DataFrame(preserver.anonymize_k_anonymity(k=K))
    seconds = since(began)
    # One line per class and sensitive value, with a count.
    return seconds, groups.loc[groups.index.repeat(groups["count"])]


def of_anjana(frame):
    from anjana.anonymity import k_anonymity

    hierarchies = {
        column: {level: labels for level, labels in enumerate(map(list, lists))}
        for column, lists in levels(frame).items()
    }
    import numpy

    hierarchies = {
        column: {level: numpy.array(labels) for level, labels in lists.items()} for column, lists in hierarchies.items()
    }
    began = started()
    release = k_anonymity(frame, [], QUASI_IDENTIFIERS, K, 5, hierarchies)
    return since(began), release


RUNS = {
    "this package, `layered`": lambda frame: of_this_package(frame, "layered", False),
    "this package, `rounded`": lambda frame: of_this_package(frame, "rounded", False),
    "this package, `mondrian`": lambda frame: of_this_package(frame, "mondrian", False),
    "anonypy (Mondrian)": of_anonypy,
    "this package, `layered`, steps of ages": lambda frame: of_this_package(frame, "layered", True),
    "this package, `datafly`, steps of ages": lambda frame: of_this_package(frame, "datafly", True),
    "anjana, steps of ages, up to 5 % left out": of_anjana,
}


def lost(cell, column, values):
    """How much of a column a published cell covers, from 0 to 1."""
    text = str(cell).strip("[]{}'")
    if text in ("*", "nan", "None"):
        return 1.0
    if column in NUMBERS:
        low, _, high = text.partition("-")
        low, high = float(low), float(high or low)
        return min(1.0, (high - low) / (values.max() - values.min()))
    covered = len({part.strip() for part in text.split(",")})
    return (covered - 1) / (values.nunique() - 1)


def measured(original, release):
    """Loss and the smallest class."""
    loss = 0.0
    for column in QUASI_IDENTIFIERS:
        counts = release[column].astype(str).value_counts()
        loss += sum(lost(cell, column, original[column]) * count for cell, count in counts.items())
        loss += len(original) - len(release)
    sizes = release[QUASI_IDENTIFIERS].astype(str).groupby(QUASI_IDENTIFIERS).size()
    return loss / len(original) / len(QUASI_IDENTIFIERS), int(sizes.min()), len(sizes)


def one(name, rows):
    frame = table(rows)
    seconds, release = RUNS[name](frame)
    loss, smallest, classes = measured(frame, release)
    print(json.dumps({"seconds": seconds, "loss": loss, "k": smallest, "classes": classes, "left out": len(frame) - len(release)}))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=0, help="made-up rows instead of Adult")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    arguments.add_argument("--one", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        return one(given.one, given.rows)
    found = {name: [] for name in RUNS}
    stopped = {}
    for _ in range(given.runs):
        for name in RUNS:
            if name in stopped:
                continue
            command = [sys.executable, __file__, "--rows", str(given.rows), "--one", name]
            try:
                told = subprocess.run(command, capture_output=True, text=True, timeout=given.limit)
                found[name].append(json.loads(told.stdout.splitlines()[-1]))
            except subprocess.TimeoutExpired:
                stopped[name] = f"more than {given.limit:.0f} s"
            except (IndexError, ValueError):
                stopped[name] = (told.stderr.strip().splitlines() or ["ended without a word"])[-1][:100]
    print("| | wall s | CPU s | loss | classes | smallest class | rows left out |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, runs in found.items():
        if runs:
            wall, processors = (statistics.median(run["seconds"][clock] for run in runs) for clock in (0, 1))
            last = runs[-1]
            print(f"| {name} | {wall:.2f} | {processors:.2f} | {last['loss']:.4f} | {last['classes']} | {last['k']} | {last['left out']} |")
        else:
            print(f"| {name} | {stopped[name]} | | | | | |")


if __name__ == "__main__":
    main()
