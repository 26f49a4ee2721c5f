"""Command line: options, console output and one module a command."""
