"""The report of a run, as a page and as tables on the terminal."""

METRICS, REPORT = "metrics.json", "report.html"
PARTIAL, PARTIAL_REPORT = "partial.json", "partial.html"  # of a run that failed
VERSION = 2  # of the metrics; grows when a reader of the old ones would go wrong
