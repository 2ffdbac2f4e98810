"""Day numbers and dates."""

import datetime

_EPOCH = datetime.date(1899, 12, 30)


def to_serial(year, month, day):
    """The number of a day. Raises ValueError for a day that does not exist."""
    return (datetime.date(year, month, day) - _EPOCH).days


def from_serial(number):
    """The day of a number. Raises OverflowError for a day that does not exist."""
    return _EPOCH + datetime.timedelta(days=number)
