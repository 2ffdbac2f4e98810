"""Sheets as text."""

import csv
import io

from gridcalc.addresses import cell_name, column_letters
from gridcalc.formats import format_value
from gridcalc.values import plain_text

_DEFAULT_WIDTH = 8
_GAP = "  "


def shown(sheet, row, col):
    """A cell as it is shown."""
    return format_value(sheet.value(row, col), sheet.style(row, col))


def table(sheet, box):
    """A rectangle with its headings, numbers to the right and texts to the left."""
    if box is None:
        return "(empty)"
    top, left, bottom, right = box
    columns = range(left, right + 1)
    widths = {col: _width(sheet, col, top, bottom) for col in columns}
    margin = len(str(bottom + 1))
    lines = [_GAP.join([" " * margin] + [column_letters(col).center(widths[col]) for col in columns])]
    for row in range(top, bottom + 1):
        cells = [_aligned(sheet, row, col, widths[col]) for col in columns]
        lines.append(_GAP.join([str(row + 1).rjust(margin)] + cells))
    return "\n".join(line.rstrip() for line in lines)


def _width(sheet, col, top, bottom):
    if col in sheet.widths:
        return sheet.widths[col]
    longest = max((len(shown(sheet, row, col)) for row in range(top, bottom + 1)), default=0)
    return max(longest, min(_DEFAULT_WIDTH, 3))


def _aligned(sheet, row, col, width):
    text = shown(sheet, row, col)
    value = sheet.value(row, col)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if len(text) > width:
        text = "#" * width if number else text[: width - 1] + "…"
    return text.rjust(width) if number else text.ljust(width)


def formulas(sheet):
    """Every formula of a sheet, a line each."""
    found = sorted(sheet.formulas(), key=lambda item: item[0])
    return [f"{cell_name(row, col)}: {cell.source} -> {plain_text(cell.value)}" for (row, col), cell in found]


def csv_text(sheet, formatted):
    """The used part of a sheet as CSV: plain values, or what is shown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    box = sheet.used_box()
    if box is not None:
        top, left, bottom, right = box
        for row in range(top, bottom + 1):
            writer.writerow([
                shown(sheet, row, col) if formatted else plain_text(sheet.value(row, col))
                for col in range(left, right + 1)
            ])
    return out.getvalue()
