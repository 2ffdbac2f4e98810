"""Rows and columns that come and go: where everything else ends up.

An ``Edit`` says that ``count`` rows (or columns) are inserted before index ``at`` of a sheet, or that ``count`` of
them are deleted from there on.
"""

from gridcalc.addresses import MAX_COLS, MAX_ROWS, CellRef, RangeRef
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

    def carried(self, ref):
        """A reference to a cell after the edit; None when its cell is gone. The old one stays as it is."""
        index = self.index(getattr(ref, self.axis))
        return None if index is None else self._at(ref, index)

    def carried_range(self, ref):
        """A range after the edit: it grows with what is inserted inside and shrinks to what is left of it."""
        first, last = self.span(getattr(ref.start, self.axis), getattr(ref.end, self.axis))
        if first is None:
            return None
        return RangeRef(self._at(ref.start, first), self._at(ref.end, last))

    def _at(self, ref, index):
        row, col = (index, ref.col) if self.axis == "row" else (ref.row, index)
        return CellRef(row, col, ref.row_fixed, ref.col_fixed, ref.sheet)

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
