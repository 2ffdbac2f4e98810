"""Where functions are kept, and the helpers they share."""

from typing import Callable, NamedTuple, Optional

from gridcalc.errors import BAD_VALUE, ErrorValue
from gridcalc.values import Failure, to_number


class Function(NamedTuple):
    """A function: how many arguments it takes, and whether it wants them unevaluated."""

    name: str
    body: Callable
    least: int
    most: Optional[int]
    lazy: bool


class Area:
    """The values of a rectangle of cells, row by row."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def height(self):
        return len(self.rows)

    @property
    def width(self):
        return len(self.rows[0])

    def values(self):
        for row in self.rows:
            yield from row

    def column(self, index):
        return [row[index] for row in self.rows]


_functions = {}


def function(name, least, most=-1, lazy=False):
    """Register a function. ``most`` is ``least`` when left out; None is any number."""

    def register(body):
        limit = least if most == -1 else most
        _functions[name] = Function(name, body, least, limit, lazy)
        return body

    return register


def lookup(name):
    """The function of that name, or None."""
    return _functions.get(name)


def names():
    """All names, sorted."""
    return sorted(_functions)


def scalar(value):
    """An argument that must be one value: an area of one cell is that cell."""
    if isinstance(value, Area):
        if value.height == 1 and value.width == 1:
            return value.rows[0][0]
        raise Failure(BAD_VALUE)
    return value


def each_value(arguments):
    """Every value of every argument, with whether it came from cells."""
    for argument in arguments:
        if isinstance(argument, Area):
            for value in argument.values():
                yield value, True
        else:
            yield argument, False


def numbers(arguments):
    """The numbers to be added up: in cells only real numbers count, given directly all must be numbers."""
    found = []
    for value, from_cells in each_value(arguments):
        if isinstance(value, ErrorValue):
            raise Failure(value)
        if not from_cells:
            found.append(to_number(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(value)
    return found
