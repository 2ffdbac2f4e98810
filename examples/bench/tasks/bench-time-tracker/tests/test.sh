#!/usr/bin/env bash
# Judges the work in the current directory; leaves reward.json in the folder of the verifier's logs.
# Nothing of the work is imported here: the tests start it as a program of its own, and Python reads
# neither the work's modules nor its environment (-I), no site packages (-S) and no cached bytecode.
set -eu
work="$PWD"
logs="${LOGS_DIR:-/logs}/verifier"
mkdir -p "$logs"
logs="$(cd "$logs" && pwd)"
cd "${TESTS_DIR:-/tests}"
exec python3 -I -S -B -X pycache_prefix=/dev/null run.py "$work" "$logs"
