"""Conditions given as text: ``">=10"``, ``"<>done"``, ``"north*"``."""

import re

from gridcalc.errors import ErrorValue
from gridcalc.values import compare, from_input

_OPERATOR = re.compile(r"(<=|>=|<>|<|>|=)?(.*)\Z", re.DOTALL)


def matcher(criterion):
    """A predicate on values."""
    if not isinstance(criterion, str):
        return lambda value: _same(value, criterion)
    operator, rest = _OPERATOR.match(criterion).groups()
    wanted = from_input(rest)
    if operator in (None, "=") and isinstance(wanted, str) and ("*" in wanted or "?" in wanted):
        return _pattern(wanted)
    tests = {
        None: lambda order: order == 0,
        "=": lambda order: order == 0,
        "<>": lambda order: order != 0,
        "<": lambda order: order < 0,
        ">": lambda order: order > 0,
        "<=": lambda order: order <= 0,
        ">=": lambda order: order >= 0,
    }
    test = tests[operator]

    def matches(value):
        if not _comparable(value, wanted):
            return operator == "<>"
        return test(compare(value, wanted))

    return matches


def _same(value, wanted):
    return _comparable(value, wanted) and compare(value, wanted) == 0


def _comparable(value, wanted):
    """Only values of one kind are compared: a text is never above 10, an empty cell is not 0."""
    if isinstance(value, ErrorValue) or isinstance(wanted, ErrorValue):
        return False
    return _kind(value) == _kind(wanted)


def _kind(value):
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def _pattern(wanted):
    parts = {"*": ".*", "?": "."}
    expression = "".join(parts.get(char, re.escape(char)) for char in wanted)
    compiled = re.compile(expression + r"\Z", re.IGNORECASE | re.DOTALL)
    return lambda value: isinstance(value, str) and compiled.match(value) is not None
