"""The functions that formulas may call. Importing this package registers all of them."""

from gridcalc.functions import dates, logic, lookup, maths, statistics, texts  # noqa: F401
from gridcalc.functions.registry import lookup as find_function
from gridcalc.functions.registry import names

__all__ = ["find_function", "names"]
