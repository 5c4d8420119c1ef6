"""Release jobs, and the page about a release."""

import html
import json
import os
import warnings

from ._errors import InvalidOptions
from ._hierarchies import Hierarchy
from ._session import default_session


class Page(str):
    """A page about a release, as HTML. A notebook shows it; ``save`` writes it."""

    def _repr_html_(self):
        # A frame of its own: the page's style is not the notebook's.
        return f'<iframe srcdoc="{html.escape(self)}" style="width: 100%; height: 60em; border: 0"></iframe>'

    def save(self, path):
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


def run_job(path, *, dry_run=False, new_series=False, progress=None, session=None):
    """Runs a release job: anonymize, verify what was written, publish in one step. Returns the manifest.

    With ``dry_run`` nothing is written at the output, and with ``new_series`` a series begins anew. ``progress`` is called with
    the phase, the rows read in it and, where it is known, the number of all rows. What somebody should look at though the
    release is published is a warning. The session gives its limits and object stores.
    """
    native = (session or default_session())._native
    manifest, notes = native.run_job(os.fspath(path), dry_run, new_series, progress)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return json.loads(manifest)


def report(job=None, *, original=None, published=None, threshold=None, title=None, session=None, **options):
    """The page about a release: sizes of groups, risks, losses, values before and after.

    Of a job, ``report("job.toml")`` is about its current release; ``published`` names another one, or a file. Without a job give
    the paths of both tables and what the page should judge: ``report(original="census.parquet", published="release.parquet",
    quasi_identifiers=["age", "zip"], sensitive=["disease"], k=10)``, with the options of a job file. The page shows no value that
    fewer than ``threshold`` records have: k, and at least 10, without it.
    """
    about = {"text": None, "published": _absolute(published), "threshold": threshold, "title": title}
    if job is not None and original is None and not options:
        about["path"] = os.fspath(job)
    elif job is None and original is not None and published is not None:
        about["path"] = os.getcwd()
        about["text"] = _job(_absolute(original), about["published"], title, options)
    else:
        raise InvalidOptions(
            "report takes a job, as in report('job.toml'), or two tables and their options, as in "
            "report(original='census.parquet', published='release.parquet', quasi_identifiers=['age', 'zip'])"
        )
    return Page((session or default_session())._native.report(about))


def _absolute(path):
    """Where the user is decides what a relative path means. A directory ends with a slash."""
    if path is None or "://" in os.fspath(path):
        return path
    absolute = os.path.abspath(os.fspath(path))
    return absolute + "/" if os.path.isdir(absolute) else absolute


def _job(original, published, title, options):
    """A job that was never run, which a page is about."""
    name = title or os.path.basename(published.rstrip("/")).split(".")[0]
    lines = [f"name = {_toml(name)}", "[input.original]", f"path = {_toml(original)}", "[output]"]
    lines += [f"path = {_toml(published)}", "[anonymize]"]
    return "\n".join(lines + [f"{name} = {_toml(value)}" for name, value in options.items()])


def _toml(value):
    """A value as job files write it."""
    if isinstance(value, Hierarchy):
        return f"{{ {value.function} = [{', '.join(value.steps)}] }}"
    if isinstance(value, os.PathLike):
        return f"{{ file = {json.dumps(os.path.abspath(value))} }}"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, (str, bool, int, float)):
        return json.dumps(value)
    raise InvalidOptions(f"report: a {type(value).__name__} cannot be written in a job file")
