#!/bin/sh
# Makes the repo of the example with its tags: v1 to start from, the solution, the hidden tests.
# The folder that it is made in may be named.
set -eu
cd "${1:-$(dirname "$0")}"
rm -rf repo
git init --quiet --initial-branch=main repo
cd repo
git config user.name proctor
git config user.email proctor@localhost
commit() {
  git add --all
  git commit --quiet -m "$1"
  git tag "$1"
}

echo 'Write `hello` into the file greeting.txt.' > TASK.md
echo 'echo installed > installed.txt' > install.sh
commit v1

echo hello > greeting.txt
commit v1-solution

git checkout --quiet --detach v1
mkdir hidden
echo 'test -f installed.txt && grep -qx hello greeting.txt' > hidden/test.sh
commit v1-validation
git checkout --quiet main
