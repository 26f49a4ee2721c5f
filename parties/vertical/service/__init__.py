"""A party that stays: it answers predictions, and carries out requests with the kept model."""
