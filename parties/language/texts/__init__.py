"""Texts: what is read, who holds it, how it becomes tokens, and what everybody may see."""
