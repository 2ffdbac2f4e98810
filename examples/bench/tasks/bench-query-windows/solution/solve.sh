#!/usr/bin/env bash
# Window functions are a step of the plan between groups and the columns of the result: see src/windows.js.
set -eu
cp "${SOLUTION_DIR:-/solution}"/src/*.js src/
