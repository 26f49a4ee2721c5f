"""The report of a run, as a page and as tables on the terminal."""

METRICS, REPORT = "metrics.json", "report.html"
