"""Command line: options, console output, and one module per command."""
