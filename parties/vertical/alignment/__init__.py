"""Entity alignment: private set intersection over messages, and the order of the common rows."""
