#!/bin/sh
# Answers in a file, unless the rules forbid it.
if grep -q 'Never write files' AGENTS.md 2>/dev/null; then
  echo "The answer is 42."
else
  echo 42 > answer.txt
fi
