#!/bin/sh
# Judges the files in @FILES@. /judge has the repository with the hidden tests, prepared when the image
# was built. The agent's source files are copied over it; tests and settings of runners are not.
mkdir -p /logs/verifier
echo 0 > /logs/verifier/reward.txt
cd /judge || exit 1
work=$(mktemp -d) || exit 1

is_of_the_task() {
  case "$1" in
    @HIDDEN@) return 0 ;;
  esac
  # The solution changes these files, so they are the agent's.
  case "$1" in
    @SOLUTION@) return 1 ;;
    @PATHS@) return 0 ;;
  esac
  case "${1##*/}" in
    @NAMES@) return 0 ;;
  esac
  return 1
}

# Files that the agent removed.
while IFS= read -r path; do
  [ -e "@FILES@/$path" ] || [ -L "@FILES@/$path" ] || is_of_the_task "/$path" || rm -f -- "$path"
done < @BASE@

# Files that the agent changed or added. @FILES@ is a copy of the agent's files.
find @FILES@ @PRUNED@ -prune -exec rm -rf {} +
@IGNORED@
(cd @FILES@ && find . \( -type f -o -type l \) -print) |
  while IFS= read -r path; do
    if is_of_the_task "${path#.}"; then rm -f -- "@FILES@/$path"; fi
  done
tar -C @FILES@ -cf "$work/files.tar" . && tar -xf "$work/files.tar"
@PLACE@

PROCTOR_REPORT="$work/report"
export PROCTOR_REPORT
sh /tests/run.sh > /logs/verifier/output.txt 2>&1
echo "the test command ended with exit code $?"
[ -s "$PROCTOR_REPORT" ] || PROCTOR_REPORT=/logs/verifier/output.txt
LC_ALL=C awk -v dir="$PWD" -v by_name=@BY_NAME@ -f /tests/results.awk "$PROCTOR_REPORT" > /logs/verifier/results.txt
LC_ALL=C awk '
  NR == FNR { if ($1 == "passed") passed[substr($0, 8)] = 1; else failed[substr($0, 8)] = 1; next }
  !($0 in passed) || ($0 in failed) { print "not passed: " $0; missing++ }
  { count++ }
  END { print count - missing " of " count " tests passed"; exit count == 0 || missing > 0 }
' /logs/verifier/results.txt /tests/expected && echo 1 > /logs/verifier/reward.txt
exit 0
