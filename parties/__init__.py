"""Everything beside the core packages: modes, data, requests, reports, checks, command line."""
