"""What is wrong with a language model, its folder or its adapters, and a hint."""


class LanguageModelError(Exception):
    """A model, folder, adapter or setting that cannot be used; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
