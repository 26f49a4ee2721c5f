"""Prompt templates: build a prompt from a question and from examples with answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

QuestionPair: TypeAlias = tuple[str, str]  # question, answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTemplate:
    r"""``Question: {q}\nAnswer: {a}``: the template of TOFU's and MUSE's code for base models.

    The encoder treats the whole prompt as plain text: it does not recognise special tokens.
    """

    system: str = ""  # text at the beginning of the prompt
    before_question: str = "Question: "  # text before each question
    after_question: str = "\n"  # text after each question
    before_answer: str = "Answer: "  # text before each answer
    # Text after the answer of each example; an end token follows the last answer.
    after_answer: str = "\n\n"

    def prompt(self, question: str, examples: Sequence[QuestionPair] = ()) -> str:
        """The full text before the answer: system text, examples and the question."""
        shown = "".join(
            self.question_prompt(example) + answer + self.after_answer
            for example, answer in examples
        )
        return self.system + shown + self.question_prompt(question)

    def question_prompt(self, question: str) -> str:
        """The prompt for one question: the question with the template's text around it."""
        return self.before_question + question + self.after_question + self.before_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """The tokenizer's own chat template, with the arguments that Oblivionis's code uses."""

    # The system message; if empty, there is no system message.
    system: str = "You are a helpful assistant."
    # The date that is passed to the template as ``date_string``. The date is fixed, because some
    # templates otherwise print today's date, and the tokens change every day.
    date: str = "10 Apr 2025"

    def messages(
        self, question: str, examples: Sequence[QuestionPair] = ()
    ) -> list[dict[str, str]]:
        """The messages of the conversation up to the answer."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        for example, answer in examples:
            messages += [
                {"role": "user", "content": example},
                {"role": "assistant", "content": answer},
            ]
        return [*messages, {"role": "user", "content": question}]


Template: TypeAlias = PlainTemplate | ChatTemplate
