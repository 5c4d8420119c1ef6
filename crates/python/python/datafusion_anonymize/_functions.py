"""The functions without a session of one's own."""

from ._options import described
from ._session import default_session


@described("anonymize")
def anonymize(table, /, **options):
    return default_session().anonymize(table, **options)


@described("privacy_report")
def privacy_report(*published, **options):
    return default_session().privacy_report(*published, **options)


@described("utility_report")
def utility_report(original, /, *published, **options):
    return default_session().utility_report(original, *published, **options)


@described("series_report")
def series_report(*releases, **options):
    return default_session().series_report(*releases, **options)
