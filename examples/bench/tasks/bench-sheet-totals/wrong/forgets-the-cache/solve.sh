#!/usr/bin/env bash
# Wrong: the parser's cache is emptied after every insertion and deletion, which mends undo and formulas that are
# typed again; but cells that share a tree already still have it changed under them, once for each of them.
set -eu
cp "${SOLUTION_DIR:-/solution}"/gridcalc/*.py gridcalc/
