# shellcheck shell=bash
# Steps that the tiers of tests share. Sourced by scripts/test and scripts/test-*, from the root of the repo.

# A fresh clone compiles everything once: incremental data would only cost time and space.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"

began=$SECONDS
step() { printf '\n== [%d s] %s\n' $((SECONDS - began)) "$*"; }
fail() { # fail PROBLEM FIX
  printf '\n%s: %s\n  fix: %s\n' "${0##*/}" "$1" "$2" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

has cargo || fail "cargo is not installed" "install Rust: https://rustup.rs"
has git || fail "git is not installed" "install git with your package manager"

# A debug build of cargo-nextest, because compiling it takes longer than it runs. It stays in this clone.
install_nextest() {
  export PATH="$PWD/.cache/tools/bin:$PATH"
  ! cargo nextest --version >/dev/null 2>&1 || return 0
  step "install cargo-nextest into .cache/tools (a prebuilt one is quicker: https://nexte.st)"
  cargo install cargo-nextest --locked --debug --quiet --root .cache/tools \
    --no-default-features --features default-no-update ||
    fail "cargo-nextest could not be installed" "cargo install cargo-nextest --locked"
}

check_format_and_lints() {
  step "format"
  cargo fmt --all --check || fail "some files are not formatted" "cargo fmt --all"
  step "clippy"
  cargo clippy --workspace --all-targets --quiet -- -D warnings || fail "clippy found problems" "see above"
}

# Builds the tests with the programs that they start. Always with --workspace: features are unified over the selected
# packages, so another selection would compile 50 dependencies and our own crates once more.
build_tests() {
  step "build"
  cargo nextest run --workspace --no-run --cargo-quiet || fail "the build failed" "see above"
}

run_doctests() {
  step "doctests"
  cargo test --workspace --doc --quiet || fail "doctests failed" "cargo test --workspace --doc"
}
