"""Cell values: how they are read from input, converted, compared and written.

A value is a number (int or float), a text, a bool, an ErrorValue, or None for an empty cell.
"""

import re

from gridcalc.errors import ALL_CODES, BAD_VALUE, DIV_ZERO, BAD_NUMBER, ErrorValue

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z")
_PERCENT = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))%\Z")


class Failure(Exception):
    """Carries an ErrorValue out of the depth of a calculation."""

    def __init__(self, value):
        super().__init__(value.code)
        self.value = value


def from_input(text):
    """What a person means who types this text into a cell (formulas aside)."""
    stripped = text.strip()
    if not stripped:
        return None
    if stripped.startswith("'"):
        return stripped[1:]
    upper = stripped.upper()
    if upper in ("TRUE", "FALSE"):
        return upper == "TRUE"
    if upper in ALL_CODES:
        return ErrorValue(upper)
    number = parse_number(stripped)
    return stripped if number is None else number


def parse_number(text):
    """The number that a text stands for, or None."""
    text = text.strip()
    if _NUMBER.match(text):
        return tidy(float(text)) if any(mark in text for mark in ".eE") else int(text)
    match = _PERCENT.match(text)
    if match:
        return tidy(float(match.group(1)) / 100)
    return None


def tidy(number):
    """A whole float becomes an int, so that 2 * 0.5 is shown as 1."""
    if isinstance(number, float):
        if number != number or number in (float("inf"), float("-inf")):
            raise Failure(BAD_NUMBER)
        if number.is_integer() and abs(number) < 1e15:
            return int(number)
    return number


def to_number(value):
    """A value where a number is needed; an empty cell is 0."""
    if isinstance(value, ErrorValue):
        raise Failure(value)
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return value
    number = parse_number(value)
    if number is None:
        raise Failure(BAD_VALUE)
    return number


def to_whole(value):
    """A value where a whole number is needed; a fraction is cut off."""
    return int(to_number(value))


def to_text(value):
    """A value where a text is needed."""
    if isinstance(value, ErrorValue):
        raise Failure(value)
    return plain_text(value)


def to_bool(value):
    """A value where a condition is needed."""
    if isinstance(value, ErrorValue):
        raise Failure(value)
    if isinstance(value, str):
        if value.upper() in ("TRUE", "FALSE"):
            return value.upper() == "TRUE"
        raise Failure(BAD_VALUE)
    return bool(value)


def plain_text(value):
    """A value as text without any format; errors included."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


def quote_text(text):
    """A text as a formula writes it."""
    return '"' + text.replace('"', '""') + '"'


def divide(left, right):
    """A quotient, or ``#DIV/0!``."""
    if right == 0:
        raise Failure(DIV_ZERO)
    return tidy(left / right)


def power(base, exponent):
    """A power, or ``#NUM!`` where there is no real one."""
    try:
        result = base**exponent
    except ZeroDivisionError:
        raise Failure(DIV_ZERO) from None
    except OverflowError:
        raise Failure(BAD_NUMBER) from None
    if isinstance(result, complex):
        raise Failure(BAD_NUMBER)
    return tidy(result)


def sort_key(value):
    """Orders values of all kinds: numbers, then texts, then bools, then errors, empty cells last."""
    if value is None:
        return (4, 0)
    if isinstance(value, ErrorValue):
        return (3, value.code)
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, str):
        return (1, value.lower())
    return (0, value)


def compare(left, right):
    """Negative, zero or positive, as spreadsheets compare: without case, an empty cell as 0 or empty text."""
    for value in (left, right):
        if isinstance(value, ErrorValue):
            raise Failure(value)
    left, right = _fill_blank(left, right), _fill_blank(right, left)
    first, second = sort_key(left), sort_key(right)
    return (first > second) - (first < second)


def _fill_blank(value, other):
    if value is not None:
        return value
    if isinstance(other, str):
        return ""
    if isinstance(other, bool):
        return False
    return 0
