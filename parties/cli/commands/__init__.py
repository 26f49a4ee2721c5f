"""One module a command of ``vfl``."""
