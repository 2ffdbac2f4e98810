"""Number formats: how a value is shown.

A format is ``general``, ``text``, ``date``, ``fixed:N``, ``grouped:N``, ``percent:N`` or ``money:SYMBOL``.
"""

from typing import NamedTuple

from gridcalc.calendar_days import from_serial
from gridcalc.errors import GridError
from gridcalc.values import plain_text

_WITH_DIGITS = {"fixed": 2, "grouped": 0, "percent": 0}
_MOST_DIGITS = 10


class Format(NamedTuple):
    """A parsed format."""

    kind: str
    digits: int = 0
    symbol: str = ""

    def __str__(self):
        if self.kind in _WITH_DIGITS:
            return f"{self.kind}:{self.digits}"
        if self.kind == "money":
            return f"money:{self.symbol}"
        return self.kind


GENERAL = Format("general")


def parse_format(text):
    """Read a format's name."""
    kind, colon, detail = text.strip().partition(":")
    kind = kind.lower()
    if kind in ("general", "text", "date") and not colon:
        return Format(kind)
    if kind in _WITH_DIGITS:
        if not colon:
            return Format(kind, _WITH_DIGITS[kind])
        if detail.isdigit() and int(detail) <= _MOST_DIGITS:
            return Format(kind, int(detail))
    if kind == "money" and detail:
        return Format("money", 2, detail)
    raise GridError(f"'{text}' is not a format")


def format_value(value, style):
    """A value as it is shown. Formats are for numbers: anything else is shown as it is."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return plain_text(value)
    if style.kind == "date":
        return _date_text(value)
    if style.kind == "fixed":
        return f"{value:.{style.digits}f}"
    if style.kind == "grouped":
        return f"{value:,.{style.digits}f}"
    if style.kind == "percent":
        return f"{value * 100:.{style.digits}f}%"
    if style.kind == "money":
        sign = "-" if value < 0 else ""
        return f"{sign}{style.symbol}{abs(value):,.2f}"
    return plain_text(value)


def _date_text(value):
    try:
        return from_serial(int(value)).isoformat()
    except (OverflowError, ValueError):
        return plain_text(value)
