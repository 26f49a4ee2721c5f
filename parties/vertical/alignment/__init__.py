"""Entity alignment: finding the common rows by private set intersection, carried in messages."""
