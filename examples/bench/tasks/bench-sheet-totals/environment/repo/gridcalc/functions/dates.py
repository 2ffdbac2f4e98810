"""Dates, which are counted in days since 1899-12-30 as every spreadsheet does."""

import calendar

from gridcalc.calendar_days import from_serial, to_serial
from gridcalc.errors import BAD_NUMBER, BAD_VALUE
from gridcalc.functions.registry import function, scalar
from gridcalc.values import Failure, to_number, to_text, to_whole


@function("DATE", 3)
def date(year, month, day):
    """Months and days beyond their end run over: DATE(2024, 14, 1) is in February 2025."""
    months = to_whole(scalar(year)) * 12 + to_whole(scalar(month)) - 1
    try:
        first = to_serial(months // 12, months % 12 + 1, 1)
    except ValueError:
        raise Failure(BAD_NUMBER) from None
    return first + to_whole(scalar(day)) - 1


@function("DATEVALUE", 1)
def date_of(value):
    parts = to_text(scalar(value)).split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise Failure(BAD_VALUE)
    try:
        return to_serial(*(int(part) for part in parts))
    except ValueError:
        raise Failure(BAD_VALUE) from None


@function("YEAR", 1)
def year(value):
    return _day(value).year


@function("MONTH", 1)
def month(value):
    return _day(value).month


@function("DAY", 1)
def day(value):
    return _day(value).day


@function("WEEKDAY", 1)
def weekday(value):
    """Sunday is 1."""
    return (_day(value).weekday() + 1) % 7 + 1


@function("DAYS", 2)
def days(end, start):
    return to_whole(scalar(end)) - to_whole(scalar(start))


@function("EDATE", 2)
def month_later(start, months):
    begin = _day(start)
    count = begin.year * 12 + begin.month - 1 + to_whole(scalar(months))
    year_, month_ = count // 12, count % 12 + 1
    try:
        last = calendar.monthrange(year_, month_)[1]
        return to_serial(year_, month_, min(begin.day, last))
    except ValueError:
        raise Failure(BAD_NUMBER) from None


@function("EOMONTH", 2)
def month_end(start, months):
    begin = from_serial(month_later(start, months))
    return to_serial(begin.year, begin.month, calendar.monthrange(begin.year, begin.month)[1])


def _day(value):
    number = to_number(scalar(value))
    try:
        return from_serial(int(number))
    except (OverflowError, ValueError):
        raise Failure(BAD_NUMBER) from None
