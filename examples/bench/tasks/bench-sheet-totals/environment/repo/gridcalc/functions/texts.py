"""Text."""

from gridcalc.errors import BAD_VALUE, GridError
from gridcalc.formats import format_value, parse_format
from gridcalc.functions.registry import each_value, function, scalar
from gridcalc.values import Failure, parse_number, to_bool, to_text, to_whole


@function("CONCAT", 1, None)
def concatenated(*arguments):
    return "".join(to_text(value) for value, _ in each_value(arguments))


@function("TEXTJOIN", 3, None)
def joined(separator, skip_empty, *arguments):
    skip = to_bool(scalar(skip_empty))
    parts = [to_text(value) for value, _ in each_value(arguments)]
    return to_text(scalar(separator)).join(part for part in parts if part or not skip)


@function("LEN", 1)
def length(value):
    return len(to_text(scalar(value)))


@function("UPPER", 1)
def upper(value):
    return to_text(scalar(value)).upper()


@function("LOWER", 1)
def lower(value):
    return to_text(scalar(value)).lower()


@function("PROPER", 1)
def proper(value):
    return to_text(scalar(value)).title()


@function("TRIM", 1)
def trimmed(value):
    return " ".join(to_text(scalar(value)).split())


@function("LEFT", 1, 2)
def left(value, count=1):
    return to_text(scalar(value))[: _count(count)]


@function("RIGHT", 1, 2)
def right(value, count=1):
    text = to_text(scalar(value))
    return text[max(0, len(text) - _count(count)) :]


@function("MID", 3)
def middle(value, start, count):
    first = to_whole(scalar(start))
    if first < 1:
        raise Failure(BAD_VALUE)
    return to_text(scalar(value))[first - 1 : first - 1 + _count(count)]


def _count(value):
    count = to_whole(scalar(value))
    if count < 0:
        raise Failure(BAD_VALUE)
    return count


@function("REPT", 2)
def repeated(value, count):
    return to_text(scalar(value)) * _count(count)


@function("FIND", 2, 3)
def found_at(wanted, value, start=1):
    index = to_text(scalar(value)).find(to_text(scalar(wanted)), to_whole(scalar(start)) - 1)
    if index < 0:
        raise Failure(BAD_VALUE)
    return index + 1


@function("SUBSTITUTE", 3)
def substituted(value, old, new):
    old = to_text(scalar(old))
    text = to_text(scalar(value))
    return text.replace(old, to_text(scalar(new))) if old else text


@function("EXACT", 2)
def exactly(first, second):
    return to_text(scalar(first)) == to_text(scalar(second))


@function("VALUE", 1)
def number_of(value):
    number = parse_number(to_text(scalar(value)))
    if number is None:
        raise Failure(BAD_VALUE)
    return number


@function("TEXT", 2)
def formatted(value, pattern):
    try:
        return format_value(scalar(value), parse_format(to_text(scalar(pattern))))
    except GridError:
        raise Failure(BAD_VALUE) from None
