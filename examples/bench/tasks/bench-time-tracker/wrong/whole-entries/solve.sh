#!/usr/bin/env bash
# Wrong: a report of some days counts entries whole that only begin or end in them.
set -eu
sed 's/^        start, end = entry.part(first, last, now)$/        start, end = entry.start, entry.until(now)/' \
  "${SOLUTION_DIR:?}/../../solution/tt.py" >tt.py
