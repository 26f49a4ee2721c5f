"""The commands of ``vfl``, each in a module of its own."""
