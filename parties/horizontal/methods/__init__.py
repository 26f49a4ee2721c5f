"""Ways to forget a client, a file each; all leave the unlearned model with the server."""
