#!/bin/sh
# Judges the work in the current directory: 1 in reward.txt means passed, less means failed. The
# agent never sees this directory. Without a container, TESTS_DIR and LOGS_DIR replace /tests and
# /logs.
logs="${LOGS_DIR:-/logs}/verifier"
mkdir -p "$logs"
echo "fill in tests/test.sh: it checks nothing yet"
echo 0 > "$logs/reward.txt"
