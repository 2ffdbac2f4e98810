#!/bin/sh
# Creates ./repo with the three tags that proctor.yaml uses. Run it again after a change.
set -eu
cd "$(dirname "$0")"
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

echo "Write \`hello\` into the file greeting.txt." > TASK.md
commit v1

git checkout --quiet --detach v1
echo "fill in the solution" > todo.txt
commit v1-solution

git checkout --quiet --detach v1
mkdir hidden
cat > hidden/test.sh <<'EOF'
echo "fill in hidden/test.sh in make-repo.sh: it checks nothing yet"
exit 1
EOF
commit v1-validation
git checkout --quiet main
