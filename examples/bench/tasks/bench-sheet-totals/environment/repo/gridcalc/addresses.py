"""Addresses: columns, cells and ranges, as numbers and as text.

Rows and columns count from 0 inside the program and are shown as people know them (``A1`` is row 0, column 0).
"""

import re

from gridcalc.errors import AddressError

MAX_ROWS = 100_000
MAX_COLS = 702  # A to ZZ

_CELL = re.compile(r"(\$?)([A-Za-z]{1,2})(\$?)([1-9][0-9]{0,5})\Z")
_PLAIN_SHEET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def column_number(letters):
    """``A`` is 0, ``Z`` is 25, ``AA`` is 26."""
    number = 0
    for letter in letters.upper():
        if not "A" <= letter <= "Z":
            raise AddressError(f"'{letters}' is not a column")
        number = number * 26 + ord(letter) - ord("A") + 1
    if not 1 <= number <= MAX_COLS:
        raise AddressError(f"'{letters}' is not a column")
    return number - 1


def column_letters(number):
    """The inverse of ``column_number``."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def cell_name(row, col):
    """``(0, 0)`` is ``A1``."""
    return f"{column_letters(col)}{row + 1}"


def quote_sheet(name):
    """A sheet's name as it is written in a formula."""
    if _PLAIN_SHEET.match(name) and not _CELL.match(name):
        return name
    return "'" + name.replace("'", "''") + "'"


class CellRef:
    """A reference to one cell, as a formula writes it: with ``$`` marks and perhaps a sheet."""

    __slots__ = ("row", "col", "row_fixed", "col_fixed", "sheet")

    def __init__(self, row, col, row_fixed=False, col_fixed=False, sheet=None):
        self.row = row
        self.col = col
        self.row_fixed = row_fixed
        self.col_fixed = col_fixed
        self.sheet = sheet

    @classmethod
    def parse(cls, text, sheet=None):
        """Read ``B7``, ``$B7`` or ``$B$7``."""
        match = _CELL.match(text)
        if not match:
            raise AddressError(f"'{text}' is not a cell")
        row = int(match.group(4)) - 1
        if row >= MAX_ROWS:
            raise AddressError(f"'{text}' is below the last row")
        return cls(row, column_number(match.group(2)), bool(match.group(3)), bool(match.group(1)), sheet)

    def on_sheet(self, default):
        """The sheet it points into, for a formula that lives on ``default``."""
        return self.sheet or default

    def offset(self, rows, cols):
        """The reference after a copy by so many rows and columns; None when it leaves the grid."""
        row = self.row if self.row_fixed else self.row + rows
        col = self.col if self.col_fixed else self.col + cols
        if not (0 <= row < MAX_ROWS and 0 <= col < MAX_COLS):
            return None
        return CellRef(row, col, self.row_fixed, self.col_fixed, self.sheet)

    def local_text(self):
        """The address without its sheet."""
        col_mark = "$" if self.col_fixed else ""
        row_mark = "$" if self.row_fixed else ""
        return f"{col_mark}{column_letters(self.col)}{row_mark}{self.row + 1}"

    def __str__(self):
        prefix = f"{quote_sheet(self.sheet)}!" if self.sheet else ""
        return prefix + self.local_text()


class RangeRef:
    """A rectangle of cells, as a formula writes it. The corners are kept in order."""

    __slots__ = ("start", "end")

    def __init__(self, start, end):
        if start.row > end.row:
            start.row, end.row = end.row, start.row
            start.row_fixed, end.row_fixed = end.row_fixed, start.row_fixed
        if start.col > end.col:
            start.col, end.col = end.col, start.col
            start.col_fixed, end.col_fixed = end.col_fixed, start.col_fixed
        self.start = start
        self.end = end

    @property
    def sheet(self):
        return self.start.sheet

    def on_sheet(self, default):
        return self.start.sheet or default

    def offset(self, rows, cols):
        """See ``CellRef.offset``."""
        start = self.start.offset(rows, cols)
        end = self.end.offset(rows, cols)
        if start is None or end is None:
            return None
        return RangeRef(start, end)

    def box(self):
        """``(top, left, bottom, right)``, all inclusive."""
        return (self.start.row, self.start.col, self.end.row, self.end.col)

    def __str__(self):
        return f"{self.start}:{self.end.local_text()}"


def parse_cell(text):
    """A plain cell address as ``(row, col)``."""
    ref = CellRef.parse(text)
    return ref.row, ref.col


def parse_box(text):
    """A plain range, or a single cell, as ``(top, left, bottom, right)``."""
    first, colon, last = text.partition(":")
    start = CellRef.parse(first)
    end = CellRef.parse(last) if colon else CellRef.parse(first)
    return RangeRef(start, end).box()


def box_cells(box):
    """Every ``(row, col)`` of a rectangle, row by row."""
    top, left, bottom, right = box
    for row in range(top, bottom + 1):
        for col in range(left, right + 1):
            yield row, col


def box_name(box):
    """A rectangle as text; a single cell without a colon."""
    top, left, bottom, right = box
    if (top, left) == (bottom, right):
        return cell_name(top, left)
    return f"{cell_name(top, left)}:{cell_name(bottom, right)}"
