"""gridcalc: a small spreadsheet engine with a command language."""

__version__ = "1.6.0"
