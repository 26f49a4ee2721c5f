"""Reports of a run in any mode from its record: HTML pages, and tables on the terminal."""

METRICS = "metrics.json"
REPORT, OFFICER = "report.html", "officer.html"  # for the scientist and for the officer
PARTIAL = "partial.json"  # for a run that failed, with the two pages
PARTIAL_REPORT, PARTIAL_OFFICER = "partial.html", "partial-officer.html"
