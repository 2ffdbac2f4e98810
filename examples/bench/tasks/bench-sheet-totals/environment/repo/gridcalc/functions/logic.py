"""Conditions. Those that choose evaluate only what they choose."""

from gridcalc.errors import BAD_VALUE, NOT_FOUND, ErrorValue
from gridcalc.functions.registry import each_value, function, scalar
from gridcalc.values import Failure, compare, to_bool


@function("IF", 2, 3, lazy=True)
def choose(condition, then, otherwise=lambda: False):
    return then() if to_bool(scalar(condition())) else otherwise()


@function("IFS", 2, None, lazy=True)
def choose_first(*pairs):
    if len(pairs) % 2:
        raise Failure(BAD_VALUE)
    for condition, then in zip(pairs[::2], pairs[1::2]):
        if to_bool(scalar(condition())):
            return then()
    raise Failure(NOT_FOUND)


@function("SWITCH", 3, None, lazy=True)
def switch(subject, *rest):
    value = scalar(subject())
    pairs, default = (rest[:-1], rest[-1]) if len(rest) % 2 else (rest, None)
    for case, then in zip(pairs[::2], pairs[1::2]):
        if compare(value, scalar(case())) == 0:
            return then()
    if default is None:
        raise Failure(NOT_FOUND)
    return default()


@function("IFERROR", 2, lazy=True)
def if_error(attempt, otherwise):
    try:
        value = scalar(attempt())
    except Failure:
        return otherwise()
    return otherwise() if isinstance(value, ErrorValue) else value


@function("AND", 1, None)
def both(*arguments):
    return all([to_bool(value) for value in _conditions(arguments)])


@function("OR", 1, None)
def either(*arguments):
    return any([to_bool(value) for value in _conditions(arguments)])


@function("XOR", 1, None)
def odd(*arguments):
    return sum(to_bool(value) for value in _conditions(arguments)) % 2 == 1


def _conditions(arguments):
    found = [value for value, from_cells in each_value(arguments)
             if not (from_cells and (value is None or isinstance(value, str)))]
    if not found:
        raise Failure(BAD_VALUE)
    return found


@function("NOT", 1)
def negated(value):
    return not to_bool(scalar(value))


@function("ISBLANK", 1)
def is_blank(value):
    return scalar(value) is None


@function("ISNUMBER", 1)
def is_number(value):
    value = scalar(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@function("ISTEXT", 1)
def is_text(value):
    return isinstance(scalar(value), str)
