"""Reports of a run from its metrics record: an HTML page, and tables on the terminal."""

METRICS, REPORT = "metrics.json", "report.html"
PARTIAL, PARTIAL_REPORT = "partial.json", "partial.html"  # for a run that failed
VERSION = 2  # of the metrics; grows with every change that an older reader would misread
