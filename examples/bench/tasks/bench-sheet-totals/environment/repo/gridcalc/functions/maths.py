"""Arithmetic."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from gridcalc.errors import BAD_NUMBER, BAD_VALUE, DIV_ZERO
from gridcalc.functions.criteria import matcher
from gridcalc.functions.registry import Area, function, numbers, scalar
from gridcalc.values import Failure, power, tidy, to_number, to_whole


@function("SUM", 1, None)
def total(*arguments):
    return tidy(math.fsum(numbers(arguments)))


@function("PRODUCT", 1, None)
def product(*arguments):
    return tidy(math.prod(numbers(arguments)))


@function("SUMPRODUCT", 1, None)
def sum_of_products(*areas):
    shapes = {(area.height, area.width) if isinstance(area, Area) else (1, 1) for area in areas}
    if len(shapes) != 1:
        raise Failure(BAD_VALUE)
    columns = [list(area.values()) if isinstance(area, Area) else [area] for area in areas]
    return tidy(math.fsum(math.prod(_factor(value) for value in row) for row in zip(*columns)))


def _factor(value):
    return 0 if isinstance(value, (str, bool)) else to_number(value)


@function("SUMIF", 2, 3)
def sum_if(area, criterion, values=None):
    matches = matcher(scalar(criterion))
    tested = list(_area(area).values())
    added = tested if values is None else list(_area(values).values())
    if len(added) != len(tested):
        raise Failure(BAD_VALUE)
    chosen = [value for test, value in zip(tested, added) if matches(test)]
    return tidy(math.fsum(numbers([Area([chosen])])))


def _area(value):
    return value if isinstance(value, Area) else Area([[value]])


@function("ABS", 1)
def absolute(value):
    return abs(to_number(scalar(value)))


@function("SIGN", 1)
def sign(value):
    number = to_number(scalar(value))
    return (number > 0) - (number < 0)


@function("SQRT", 1)
def square_root(value):
    number = to_number(scalar(value))
    if number < 0:
        raise Failure(BAD_NUMBER)
    return tidy(math.sqrt(number))


@function("POWER", 2)
def to_the_power(base, exponent):
    return power(to_number(scalar(base)), to_number(scalar(exponent)))


@function("MOD", 2)
def modulo(value, divisor):
    divisor = to_number(scalar(divisor))
    if divisor == 0:
        raise Failure(DIV_ZERO)
    return tidy(to_number(scalar(value)) % divisor)


@function("INT", 1)
def whole(value):
    return math.floor(to_number(scalar(value)))


@function("ROUND", 1, 2)
def rounded(value, digits=0):
    return _round(value, digits, ROUND_HALF_UP)


@function("ROUNDUP", 1, 2)
def rounded_up(value, digits=0):
    number = to_number(scalar(value))
    return _round(number, digits, ROUND_CEILING if number > 0 else ROUND_FLOOR)


@function("ROUNDDOWN", 1, 2)
def rounded_down(value, digits=0):
    number = to_number(scalar(value))
    return _round(number, digits, ROUND_FLOOR if number > 0 else ROUND_CEILING)


def _round(value, digits, mode):
    # By way of the shortest decimal that stands for the number: 2.675 is meant to be 2.675.
    number = Decimal(repr(to_number(scalar(value))))
    step = Decimal(1).scaleb(-to_whole(scalar(digits)))
    return tidy(float((number / step).to_integral_value(rounding=mode) * step))


@function("GCD", 1, None)
def greatest_divisor(*arguments):
    return math.gcd(*(to_whole(number) for number in numbers(arguments)))


@function("PI", 0)
def pi():
    return math.pi


@function("EXP", 1)
def exponential(value):
    return tidy(math.exp(to_number(scalar(value))))


@function("LN", 1)
def natural_logarithm(value):
    number = to_number(scalar(value))
    if number <= 0:
        raise Failure(BAD_NUMBER)
    return tidy(math.log(number))


@function("LOG", 1, 2)
def logarithm(value, base=10):
    number, base = to_number(scalar(value)), to_number(scalar(base))
    if number <= 0 or base <= 0 or base == 1:
        raise Failure(BAD_NUMBER)
    return tidy(math.log10(number) if base == 10 else math.log(number, base))
