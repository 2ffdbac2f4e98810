#!/usr/bin/env bash
# Wrong: every cell gets a copy of the tree, which mends both reports; but defined names still hold, and change, the
# tree in the parser's cache, so that undo gives a name another meaning than the one it shows.
set -eu
cp "${SOLUTION_DIR:-/solution}"/gridcalc/*.py gridcalc/
