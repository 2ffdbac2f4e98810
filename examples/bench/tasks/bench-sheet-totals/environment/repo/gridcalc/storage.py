"""Workbooks as files: JSON for all of it, CSV for the values of one sheet."""

import csv
import json
import os
import tempfile

from gridcalc.addresses import cell_name, column_letters, column_number, parse_cell
from gridcalc.errors import GridError, StorageError
from gridcalc.formats import GENERAL, parse_format
from gridcalc.workbook import Workbook

_VERSION = 1


def save(workbook, path):
    """Write a workbook, at once or not at all."""
    text = json.dumps(_document(workbook), indent=1, ensure_ascii=False)
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".gridcalc-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text + "\n")
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None


def _document(workbook):
    return {
        "gridcalc": _VERSION,
        "current": workbook.current,
        "names": dict(workbook.name_sources()),
        "sheets": [_sheet_document(sheet) for sheet in workbook.sheets.values()],
    }


def _sheet_document(sheet):
    cells = {}
    for (row, col), cell in sorted(sheet.cells.items()):
        entry = {"input": cell.source}
        if cell.style != GENERAL:
            entry["format"] = str(cell.style)
        cells[cell_name(row, col)] = entry
    widths = {column_letters(col): width for col, width in sorted(sheet.widths.items())}
    return {"name": sheet.name, "cells": cells, "widths": widths}


def load(path):
    """Read a workbook."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise StorageError(f"{path} is not JSON") from None
    if not isinstance(document, dict) or document.get("gridcalc") != _VERSION:
        raise StorageError(f"{path} is not a workbook of version {_VERSION}")
    workbook = Workbook()
    try:
        sheets = [_read_sheet(entry) for entry in document["sheets"]]
        workbook.replace_all(sheets, document.get("names", {}), document["current"])
    except (KeyError, TypeError, AttributeError):
        raise StorageError(f"{path} is damaged") from None
    except GridError as error:
        raise StorageError(f"{path} is damaged: {error}") from None
    return workbook


def _read_sheet(entry):
    cells = []
    for address, cell in entry["cells"].items():
        style = parse_format(cell["format"]) if "format" in cell else GENERAL
        cells.append((parse_cell(address), cell["input"], style))
    widths = {column_number(letters): int(width) for letters, width in entry.get("widths", {}).items()}
    return entry["name"], widths, cells


def read_csv(path):
    """The cells of a CSV file as ``((row, col), input)`` pairs."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
    except (csv.Error, UnicodeDecodeError):
        raise StorageError(f"{path} is not CSV") from None
    return [((row, col), text) for row, line in enumerate(rows) for col, text in enumerate(line) if text]


def write_text(path, text):
    """Write a text file."""
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from None
