"""Text of the pages of reference: a file for each page, and what the pages share."""
