#!/bin/sh
# The reference solution, which passes the tests. Only the oracle agent runs it, in the workspace.
echo "fill in solution/solve.sh: it solves nothing yet"
