"""Release jobs, and the page about a release."""

import html
import json
import os
import warnings

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


def run_job(path, *, dry_run=False, progress=None, session=None):
    """Runs a release job: anonymize, verify what was written, publish in one step. Returns the manifest.

    With ``dry_run`` nothing is written at the output. ``progress`` is called with the phase, the rows read in it and, where it
    is known, the number of all rows. What somebody should look at though the release is published is a warning. The session
    gives its limits and object stores.
    """
    native = (session or default_session())._native
    manifest, notes = native.run_job(os.fspath(path), dry_run, progress)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return json.loads(manifest)


def report(job, *, published=None, threshold=None, title=None, session=None):
    """The page about the current release of a job: sizes of groups, risks, losses, values before and after.

    ``published`` names another release or file to report on. The page shows no value that fewer than ``threshold`` records
    have: k, and at least 10, without it.
    """
    native = (session or default_session())._native
    published = None if published is None else os.path.abspath(os.fspath(published))
    return Page(native.report(os.fspath(job), published, threshold, title))
