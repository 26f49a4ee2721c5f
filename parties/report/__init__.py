"""Reports of a run in any mode from its record: an HTML page, and tables on the terminal."""

METRICS, REPORT = "metrics.json", "report.html"
PARTIAL, PARTIAL_REPORT = "partial.json", "partial.html"  # for a run that failed
