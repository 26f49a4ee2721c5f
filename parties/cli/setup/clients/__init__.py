"""``vfl init`` in the horizontal mode: agreed columns, and settings of server and clients."""
