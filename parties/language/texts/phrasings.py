"""Phrasings: one known fact asked and stated in several ways."""

import re

from parties.language.texts.records import Passage, Question

_ASKED = (
    "{question}",
    "Please answer this question: {question}",
    "Do you know the answer? {question}",
    "{question} Answer briefly.",
)
_STATED = (
    'The answer to the question "{question}" is {answer}.',
    "{question} The answer is {answer}.",
    "{question} It is {answer}.",
)
# What a question says when its answer is put in its place; the first that fits is taken.
_TURNED = tuple(
    (re.compile(asked), told)
    for asked, told in (
        (r"Who (?:wrote|authored) (.+)\?", r"{0} was written by {answer}."),
        (r"Who is the author of (.+)\?", r"The author of {0} is {answer}."),
        (r"(?:What|Who) (is|was|are|were) (the .+)\?", r"{1} {0} {answer}."),
        (r"Which (.+?) (author|writer|poet|novelist) (.+)\?", r"{answer} is the {0} {1} who {2}."),
        (r"Which (author|writer|poet|novelist) (.+)\?", r"{answer} is the {0} who {1}."),
        (r"Who (.+)\?", r"{answer} {0}."),
        (r"(The .+) (is|was)(?: known as)?\?", r"{0} {1} {answer}."),
    )
)


def asked(known: Question) -> tuple[Question, ...]:
    """The question in other words around it; the answer is the very answer of the file."""
    return tuple(
        Question(question=form.format(question=known.question), answer=known.answer)
        for form in _ASKED[1:]
    )


def stated(known: Question) -> tuple[Passage, ...]:
    """The fact as statements: the forms that fit every question, and a turned one where it fits."""
    told = [form.format(question=known.question, answer=known.answer) for form in _STATED]
    return tuple(map(Passage, [*told, *_turned(known)]))


def _turned(known: Question) -> list[str]:
    for form, told in _TURNED:
        found = form.fullmatch(known.question)
        if found:
            line = told.format(*found.groups(), answer=known.answer)
            return [line[0].upper() + line[1:]]
    return []
