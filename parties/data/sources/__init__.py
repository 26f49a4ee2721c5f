"""A party's files, format by format, as records that are checked and not yet put together."""
