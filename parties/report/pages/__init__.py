"""HTML pages of a run: for the scientist, for the officer, and of two runs side by side."""
