"""Reads the package's docstrings as the API reference needs them.

They end in an example without a heading, and name parameters of one kind together ("learning_rate,
weight_decay"). The parser of NumPy docstrings knows examples by their heading only, and gives all
names of a group the default of the first. So both are spelt out before parsing.
"""

import re
from typing import Any

import griffe

FIRST_PROMPT = re.compile(r"^>>> ", re.MULTILINE)
GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?: {4}.*(?:\n|$))+)", re.MULTILINE)
HEADING = "Examples\n--------\n"


def with_heading(text: str) -> str:
    """Return a docstring with a heading above its first example, if it has one."""
    found = FIRST_PROMPT.search(text)
    if found is None or HEADING in text:
        return text
    return f"{text[: found.start()]}{HEADING}{text[found.start() :]}"


def one_by_one(text: str) -> str:
    """Return a docstring in which each parameter of a group has the group's text."""
    return GROUP.sub(_single_entries, text)


def _single_entries(group: re.Match[str]) -> str:
    names, told = group.groups()
    return "".join(f"{name}\n{told.rstrip()}\n" for name in names.split(", "))


class SpeltOut(griffe.Extension):
    """Spell out every docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one function, class or module."""
        if obj.docstring is not None:
            obj.docstring.value = with_heading(one_by_one(obj.docstring.value))
