"""What the commands ``vfl unlearn`` do: requests, decisions about them, and evidence."""
