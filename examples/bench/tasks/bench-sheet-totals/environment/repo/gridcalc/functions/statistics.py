"""Counting, averages and spread."""

import math

from gridcalc.errors import BAD_NUMBER, DIV_ZERO, NOT_FOUND, ErrorValue
from gridcalc.functions.criteria import matcher
from gridcalc.functions.registry import Area, each_value, function, numbers, scalar
from gridcalc.values import Failure, divide, tidy, to_number, to_whole


@function("COUNT", 1, None)
def count(*arguments):
    return sum(1 for value, _ in each_value(arguments)
               if isinstance(value, (int, float)) and not isinstance(value, bool))


@function("COUNTA", 1, None)
def count_filled(*arguments):
    return sum(1 for value, _ in each_value(arguments) if value is not None)


@function("COUNTBLANK", 1)
def count_empty(area):
    return sum(1 for value, _ in each_value([area]) if value is None or value == "")


@function("COUNTIF", 2)
def count_if(area, criterion):
    matches = matcher(scalar(criterion))
    return sum(1 for value, _ in each_value([area]) if matches(value))


@function("AVERAGE", 1, None)
def average(*arguments):
    found = numbers(arguments)
    return divide(math.fsum(found), len(found))


@function("AVERAGEIF", 2)
def average_if(area, criterion):
    matches = matcher(scalar(criterion))
    found = numbers([Area([[value for value, _ in each_value([area]) if matches(value)]])])
    return divide(math.fsum(found), len(found))


@function("MIN", 1, None)
def smallest(*arguments):
    return min(numbers(arguments), default=0)


@function("MAX", 1, None)
def largest(*arguments):
    return max(numbers(arguments), default=0)


@function("MEDIAN", 1, None)
def median(*arguments):
    found = sorted(numbers(arguments))
    if not found:
        raise Failure(BAD_NUMBER)
    middle = len(found) // 2
    if len(found) % 2:
        return found[middle]
    return divide(found[middle - 1] + found[middle], 2)


@function("LARGE", 2)
def nth_largest(area, position):
    return _nth(sorted(numbers([area]), reverse=True), position)


@function("SMALL", 2)
def nth_smallest(area, position):
    return _nth(sorted(numbers([area])), position)


def _nth(ordered, position):
    index = to_whole(scalar(position))
    if not 1 <= index <= len(ordered):
        raise Failure(BAD_NUMBER)
    return ordered[index - 1]


@function("RANK", 2, 3)
def rank(value, area, ascending=False):
    number = to_number(scalar(value))
    found = numbers([area])
    if number not in found:
        raise Failure(NOT_FOUND)
    if to_number(scalar(ascending)):
        return 1 + sum(1 for other in found if other < number)
    return 1 + sum(1 for other in found if other > number)


@function("STDEV", 1, None)
def deviation(*arguments):
    return tidy(math.sqrt(_variance(numbers(arguments))))


@function("VAR", 1, None)
def variance(*arguments):
    return tidy(_variance(numbers(arguments)))


def _variance(found):
    if len(found) < 2:
        raise Failure(DIV_ZERO)
    mean = math.fsum(found) / len(found)
    return math.fsum((number - mean) ** 2 for number in found) / (len(found) - 1)


@function("ISERROR", 1)
def is_error(value):
    return isinstance(value, ErrorValue)
