"""What can go wrong, in two families.

``GridError`` is a mistake of whoever drives the engine (a bad address, an unknown sheet): it is raised.
``ErrorValue`` is the result of a formula that has none (``#DIV/0!``): it is a value like any other.
"""


class GridError(Exception):
    """A request that cannot be carried out."""


class AddressError(GridError):
    """Text that is not a cell, a range, a row or a column."""


class FormulaError(GridError):
    """A formula that cannot be read."""

    def __init__(self, message, position):
        super().__init__(f"{message} at position {position + 1}")
        self.position = position


class CommandError(GridError):
    """A command that is unknown or has the wrong arguments."""


class StorageError(GridError):
    """A workbook file that cannot be read or written."""


class ErrorValue:
    """The value of a formula that has no result. Compared by code; there is one object per code."""

    _known = {}

    def __new__(cls, code):
        if code not in cls._known:
            value = super().__new__(cls)
            value.code = code
            cls._known[code] = value
        return cls._known[code]

    def __repr__(self):
        return f"ErrorValue({self.code})"

    def __str__(self):
        return self.code


DIV_ZERO = ErrorValue("#DIV/0!")
BAD_VALUE = ErrorValue("#VALUE!")
BAD_REF = ErrorValue("#REF!")
BAD_NAME = ErrorValue("#NAME?")
BAD_NUMBER = ErrorValue("#NUM!")
NOT_FOUND = ErrorValue("#N/A")
CYCLE = ErrorValue("#CYCLE!")

ALL_CODES = tuple(
    value.code
    for value in (DIV_ZERO, BAD_VALUE, BAD_REF, BAD_NAME, BAD_NUMBER, NOT_FOUND, CYCLE)
)
