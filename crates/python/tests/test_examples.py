"""The example and the page do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]


def run(script, directory):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    return subprocess.run(
        [sys.executable, *script], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_first_release_draws_loss_by_k(tmp_path):
    pytest.importorskip("matplotlib")
    outcome = run([PROJECT / "examples/python/first_release.py", "loss.png"], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "loss.png").stat().st_size > 1000
    assert re.search(r"^k +\| NULL +\| 1\d\.0 +\| 10\.0 +\| true", outcome.stdout, re.MULTILINE)


def test_the_page_runs_from_top_to_bottom(tmp_path):
    page = (PROJECT / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    outcome = run([program], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
