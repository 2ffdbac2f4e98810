"""Rows and columns that come and go: where everything else ends up.

An ``Edit`` says that ``count`` rows (or columns) are inserted before index ``at`` of a sheet, or that ``count`` of
them are deleted from there on.
"""

from gridcalc.addresses import MAX_COLS, MAX_ROWS
from gridcalc.errors import GridError


class Edit:
    """An insertion or a deletion along one axis of one sheet."""

    def __init__(self, sheet, axis, at, count, insert):
        if count < 1:
            raise GridError("the count must be at least 1")
        self.sheet = sheet
        self.axis = axis
        self.at = at
        self.count = count
        self.insert = insert
        self.limit = MAX_ROWS if axis == "row" else MAX_COLS

    def index(self, index):
        """Where a row or column goes; None when it is deleted or pushed off the grid."""
        if index < self.at:
            return index
        if self.insert:
            index += self.count
            return index if index < self.limit else None
        if index < self.at + self.count:
            return None
        return index - self.count

    def position(self, row, col):
        """Where a cell goes; None when it is gone."""
        if self.axis == "row":
            row = self.index(row)
        else:
            col = self.index(col)
        return None if row is None or col is None else (row, col)

    def carry(self, ref):
        """Take a reference to a cell along. False when its cell is gone."""
        index = self.index(getattr(ref, self.axis))
        if index is None:
            return False
        setattr(ref, self.axis, index)
        return True

    def carry_range(self, ref):
        """Take a range along: it grows with what is inserted inside and shrinks to what is left of it."""
        first = getattr(ref.start, self.axis)
        last = getattr(ref.end, self.axis)
        first, last = self.span(first, last)
        if first is None:
            return False
        setattr(ref.start, self.axis, first)
        setattr(ref.end, self.axis, last)
        return True

    def span(self, first, last):
        """Where a run of rows or columns goes; ``(None, None)`` when nothing is left."""
        if self.insert:
            first, last = self.index(first), self.index(last)
            if first is None:
                return None, None
            return first, self.limit - 1 if last is None else last
        end = self.at + self.count
        if self.at <= first and last < end:
            return None, None
        first = self.at if self.at <= first < end else self.index(first)
        last = self.at - 1 if self.at <= last < end else self.index(last)
        return first, last
