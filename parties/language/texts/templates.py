"""Templates: how a question, its answer and examples before it become one text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[str, str]  # question, answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    r"""``Question: {q}\nAnswer: {a}``, as the programs of TOFU and MUSE write it for base models.

    All parts are read as plain text: what looks like a special token in them is none.

    Attributes:
        system: stands before everything.
        after_answer: ends the answer of an example; the last answer ends with the end token.
    """

    system: str = ""
    before_question: str = "Question: "
    after_question: str = "\n"
    before_answer: str = "Answer: "
    after_answer: str = "\n\n"

    def prompt(self, question: str, examples: Sequence[Pair] = ()) -> str:
        """All that stands before the answer."""
        shown = "".join(self.prompt_of(q) + a + self.after_answer for q, a in examples)
        return self.system + shown + self.prompt_of(question)

    def prompt_of(self, question: str) -> str:
        """One question up to its answer."""
        return self.before_question + question + self.after_question + self.before_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """The tokenizer's own chat template, with what the paper's program passes to it.

    Attributes:
        system: the system message; none if empty.
        date: ``date_string`` of templates that print a date; without it they print today's, and
            no two days give the same tokens.
    """

    system: str = "You are a helpful assistant."
    date: str = "10 Apr 2025"

    def messages(self, question: str, examples: Sequence[Pair] = ()) -> list[dict[str, str]]:
        """The conversation up to the answer."""
        said = [{"role": "system", "content": self.system}] if self.system else []
        for asked, told in examples:
            said += [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]
        return [*said, {"role": "user", "content": question}]


Template: TypeAlias = Plain | Chat
