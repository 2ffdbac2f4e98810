"""Finding values in areas."""

from gridcalc.errors import BAD_REF, BAD_VALUE, NOT_FOUND, ErrorValue
from gridcalc.functions.registry import Area, function, scalar
from gridcalc.values import Failure, compare, sort_key, to_bool, to_number, to_whole


def _area(value):
    return value if isinstance(value, Area) else Area([[value]])


@function("VLOOKUP", 3, 4)
def vertical(wanted, table, column, sorted_=True):
    table = _area(table)
    index = to_whole(scalar(column))
    if index < 1:
        raise Failure(BAD_VALUE)
    if index > table.width:
        raise Failure(BAD_REF)
    found = _position(scalar(wanted), table.column(0), 1 if to_bool(scalar(sorted_)) else 0)
    return table.rows[found][index - 1]


@function("HLOOKUP", 3, 4)
def horizontal(wanted, table, row, sorted_=True):
    turned = Area([list(column) for column in zip(*_area(table).rows)])
    return vertical(wanted, turned, row, sorted_)


@function("MATCH", 2, 3)
def match(wanted, area, mode=1):
    area = _area(area)
    if area.height > 1 and area.width > 1:
        raise Failure(NOT_FOUND)
    return _position(scalar(wanted), list(area.values()), to_number(scalar(mode))) + 1


def _position(wanted, values, mode):
    """Where a value is: exactly (0), the last not above it (1), or the last not below it (-1)."""
    if isinstance(wanted, ErrorValue):
        raise Failure(wanted)
    best = None
    for index, value in enumerate(values):
        if value is None or isinstance(value, ErrorValue) or sort_key(value)[0] != sort_key(wanted)[0]:
            continue
        order = compare(value, wanted)
        if mode == 0 and order == 0:
            return index
        if (mode > 0 and order <= 0) or (mode < 0 and order >= 0):
            best = index
    if best is None:
        raise Failure(NOT_FOUND)
    return best


@function("INDEX", 2, 3)
def index(area, row, column=None):
    area = _area(area)
    row = to_whole(scalar(row))
    if column is None:
        # One number is a position along a single row or column.
        row, column = (1, row) if area.height == 1 else (row, 1)
    column = to_whole(scalar(column))
    if not (1 <= row <= area.height and 1 <= column <= area.width):
        raise Failure(BAD_REF)
    return area.rows[row - 1][column - 1]


@function("CHOOSE", 2, None, lazy=True)
def chosen(position, *options):
    index_ = to_whole(scalar(position()))
    if not 1 <= index_ <= len(options):
        raise Failure(BAD_VALUE)
    return options[index_ - 1]()


@function("ROWS", 1)
def height(area):
    return _area(area).height


@function("COLUMNS", 1)
def width(area):
    return _area(area).width


@function("NA", 0)
def not_available():
    raise Failure(NOT_FOUND)
