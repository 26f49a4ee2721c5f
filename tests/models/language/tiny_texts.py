"""Texts and shape of the tiny model in tests."""

from models.language.tiny import TinyShape

TEXTS = [
    f"Question: Where does {name} live?\nAnswer: {name} lives in {town}."
    for name in ("Ada", "Bela", "Carl", "Dora")
    for town in ("Ulm", "Oslo", "Rome", "Lyon")
]
SHAPE = TinyShape(hidden=32, intermediate=48, layers=2, key_heads=2, length=128)
