"""How the package behaves in a process: threads, forks, signals, progress."""

import threading

import pyarrow as pa
import pytest

import datafusion_anonymize as da
from conftest import SEED

ENDLESS = "SELECT age, zip, occupation FROM sample_census(rows => 4000000000)"
RELEASE = f"SELECT * FROM anonymize(({ENDLESS}), k => 10, quasi_identifiers => ['age', 'zip'], sensitive => ['occupation'])"


def test_no_thread_is_started_before_the_first_use(process):
    outcome = process(
        """
        import threading, os
        import datafusion_anonymize as da
        session = da.connect(memory_limit="1GB")
        assert not da._native.has_threads()
        assert len(os.listdir("/proc/self/task")) == 1
        session.sql("SELECT 1").to_arrow()
        assert da._native.has_threads()
        """
    )
    assert outcome.returncode == 0, outcome.stderr


def test_children_can_use_it_if_their_parent_has_not(process):
    outcome = process(
        """
        import os
        import datafusion_anonymize as da
        child = os.fork()
        if child == 0:
            os._exit(0 if len(da.connect().sql("SELECT 1")) == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert outcome.returncode == 0, outcome.stderr


def test_a_fork_of_a_process_with_threads_is_refused(process):
    outcome = process(
        """
        import multiprocessing
        import datafusion_anonymize as da
        session = da.connect()
        running = session.sql("SELECT * FROM sample_census(rows => 100000000)")
        repr(running)

        def use(_):
            try:
                session.sql("SELECT 1")
            except da.AnonymizeError as error:
                return str(error)

        with multiprocessing.get_context("fork").Pool(1) as pool:
            told = pool.map_async(use, [0]).get(timeout=60)[0]
        assert "forked" in told and "spawn" in told, told
        assert len(session.sql("SELECT 1")) == 1
        """
    )
    assert outcome.returncode == 0, outcome.stderr


def test_an_interpreter_that_ends_stops_its_queries(process, tmp_path):
    outcome = process(
        f"""
        import datafusion_anonymize as da
        session = da.connect(memory_limit="20MB", temp_dir={str(tmp_path)!r})
        running = session.sql("SELECT * FROM sample_census(rows => 1000000000)")
        repr(running)
        """
    )
    assert outcome.returncode == 0, outcome.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


INTERRUPTED = """
import os, signal, sys, time
import datafusion_anonymize as da

session = da.connect(memory_limit="50MB", temp_dir=sys.argv[1], seed="{seed}")
at = None

def interrupt(read, rows):
    global at
    if read > 50_000 and at is None:
        at = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

try:
    {statement}
except KeyboardInterrupt:
    assert time.monotonic() - at < 5, time.monotonic() - at
    # The same process goes on, with nothing left of the query.
    deadline = time.monotonic() + 60
    left = lambda: [file for _, _, files in os.walk(sys.argv[1]) for file in files]
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left(), left()
    assert len(session.sql("SELECT 1")) == 1
    print("stopped after", time.monotonic() - at)
"""


@pytest.mark.parametrize(
    "statement",
    [
        f'session.sql("{RELEASE}", progress=interrupt).to_arrow()',
        f'session.sql("COPY ({RELEASE}) TO \'" + sys.argv[1] + "/release.parquet\'", progress=interrupt)',
        f'session.anonymize(session.sql("{ENDLESS}"), k=10, quasi_identifiers=["age", "zip"], '
        'sensitive=["occupation"], progress=interrupt)',
    ],
)
def test_ctrl_c_stops_a_query_and_leaves_nothing(statement, tmp_path):
    import subprocess
    import sys

    script = INTERRUPTED.format(seed=SEED, statement=statement)
    outcome = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "stopped after" in outcome.stdout
    print(outcome.stdout)


def test_other_threads_of_python_run_meanwhile():
    counted, is_over = [0], threading.Event()

    def count():
        while not is_over.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    release = "SELECT * FROM anonymize((SELECT age, occupation FROM sample_census(rows => 300000)), k => 10, \
        quasi_identifiers => ['age'], sensitive => ['occupation'])"
    assert len(da.connect().sql(release)) == 300_000
    during = counted[0] - before
    is_over.set()
    thread.join()
    assert during > 5


def test_sessions_are_used_by_several_threads(census, roles):
    expected = da.anonymize(census, **roles).to_arrow()
    session, results = da.connect(), []
    threads = [
        threading.Thread(target=lambda: results.append(session.anonymize(census, **roles).to_arrow()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(result.equals(expected) for result in results)


def test_progress_is_told_until_all_rows_are_read(roles):
    table = da.connect().sql("SELECT age, occupation FROM sample_census(rows => 300000)").to_arrow()
    options = {"k": 10, "quasi_identifiers": ["age"], "sensitive": ["occupation"]}
    told = []
    release = da.anonymize(table, **options, progress=lambda read, rows: told.append((read, rows)))
    assert len(release) == 300_000
    assert told[-1] == (300_000, 300_000) and told == sorted(told)
    told.clear()
    assert len(da.anonymize(table.to_reader(), **options, progress=lambda *read: told.append(read))) == 300_000
    assert told[-1][0] == 300_000


def test_progress_in_one_line():
    tqdm = pytest.importorskip("tqdm")
    table = pa.table({"age": [age % 50 for age in range(100_000)]})
    with tqdm.tqdm(unit=" rows", disable=False, file=open("/dev/null", "w")) as bar:
        len(da.anonymize(table, k=10, quasi_identifiers=["age"], progress=lambda read, rows: bar.update(read - bar.n)))
        assert bar.n == 100_000


def test_what_a_callback_raises_stops_the_query():
    def refuse(read, rows):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        da.connect().sql(RELEASE, progress=refuse).to_arrow()
    with pytest.raises(da.QueryFailed, match="stopped"):
        stopped = da.connect().sql(RELEASE, progress=refuse)
        try:
            stopped.to_arrow()
        except RuntimeError:
            stopped.to_arrow()
