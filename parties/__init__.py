"""The role programs and the command line: the only place where the subjects meet."""
