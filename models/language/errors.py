"""Exception for language models, their folders and their adapters."""


class LanguageModelError(Exception):
    """A model, folder, adapter or setting cannot be used; ``hint`` says how to correct this."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
