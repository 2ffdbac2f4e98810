#!/bin/sh
# Judges the work in the current directory: 1 in reward.txt is passed, less is failed. The agent
# never sees this folder. Without a container TESTS_DIR and LOGS_DIR say where /tests and /logs are.
logs="${LOGS_DIR:-/logs}/verifier"
mkdir -p "$logs"
echo "fill in tests/test.sh: it checks nothing yet"
echo 0 > "$logs/reward.txt"
