"""A pyarrow table through Python, and the same rows in the engine's memory: time and peak memory, in one run.

    python crates/python/benches/speed.py [--rows 10000000] [--runs 3]

"Python" is `anonymize(table).to_arrow()`: the rows cross into the engine and the release crosses back. "Rust" is the same call in
SQL on a table that the engine holds, and nothing of its release leaves the engine. Both alternate in one process; a process of
its own for each measures the peak memory, beyond what the process and its table had before the call.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time

import datafusion_anonymize as da

COLUMNS = ["age", "sex", "race", "marital_status", "education", "native_country", "workclass", "occupation"]
OPTIONS = {"k": 10, "quasi_identifiers": COLUMNS[:-1], "sensitive": COLUMNS[-1:], "seed": "a seed for this benchmark"}
SQL = (
    f"SELECT * FROM anonymize(census, k => 10, quasi_identifiers => {COLUMNS[:-1]}, sensitive => {COLUMNS[-1:]}, "
    f"seed => '{OPTIONS['seed']}')"
)


def rows_of(session, rows):
    return session.sql(f"SELECT {', '.join(COLUMNS)} FROM sample_census(rows => {rows}, seed => 7)")


def clock(work):
    """Seconds on the wall, and of all threads on processors: the second is steadier where others work too."""
    wall, processors = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processors


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def peak_of(work):
    """The most memory during the work beyond that before it."""
    before, peak, is_over = resident(), [0], threading.Event()

    def watch():
        while not is_over.wait(0.01):
            peak[0] = max(peak[0], resident())

    thread = threading.Thread(target=watch)
    thread.start()
    kept = work()
    is_over.set()
    thread.join()
    del kept
    return peak[0] - before


def memory(rows):
    session = da.connect()
    table = rows_of(session, rows).to_arrow()
    peak = peak_of(lambda: da.anonymize(table, **OPTIONS).to_arrow())
    print(f"table {table.nbytes / 2**20:.0f} MiB, beyond it {peak / 2**20:.0f} MiB: {peak / table.nbytes:.2f} times the table")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.memory:
        return memory(given.rows)
    session = da.connect()
    table = rows_of(session, given.rows).to_arrow()
    columns = ", ".join(COLUMNS)
    session.sql(f"CREATE TABLE census AS SELECT {columns} FROM sample_census(rows => {given.rows}, seed => 7)")
    ratios = []
    for _ in range(given.runs):
        rust = clock(lambda: session.sql(SQL)._rows.collect())
        python = clock(lambda: session.anonymize(table, **OPTIONS).to_arrow())
        ratios.append((python[0] / rust[0], python[1] / rust[1]))
        print(f"wall: Rust {rust[0]:.2f} s, Python {python[0]:.2f} s; CPU: {rust[1]:.2f} s, {python[1]:.2f} s", flush=True)
    wall, processors = (statistics.median(column) for column in zip(*ratios))
    print(f"Python to Rust, medians of {given.runs}: {wall:.3f} on the wall, {processors:.3f} of CPU time")
    subprocess.run([sys.executable, __file__, "--memory", "--rows", str(given.rows)], check=True)


if __name__ == "__main__":
    main()
