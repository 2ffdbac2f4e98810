#!/bin/sh
# Installs Proctor on Linux or macOS from the archives of a release: the program, its other names, completions and
# licences. The archive's checksum is verified first. Asks for nothing and never uses sudo: what may not be written
# is an error.
#
#   sh install.sh [--from FOLDER|URL] [--prefix DIR] [--bin-dir DIR] [--version X.Y.Z] [--no-completions]
#
# --from            where the archives and SHA256SUMS lie; default: $PROCTOR_DIST_URL, or the folder of this script
# --prefix          default: $PREFIX, or ~/.local (/usr/local for root)
# --bin-dir         default: $BIN_DIR, or PREFIX/bin
# --version         which, if there are several
set -eu

# Filled in when a release is made for a known place.
default_url=""

from="${PROCTOR_DIST_URL:-$default_url}"
prefix="${PREFIX:-}"
bin_dir="${BIN_DIR:-}"
version=""
completions=yes

say() { printf '%s\n' "$1"; }
fail() {
  printf 'install.sh: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
need_value() { [ "$1" -ge 2 ] || fail "$2 needs a value" "sh install.sh --help"; }

# Everything is in functions, called in the last line: half a download does nothing.
read_arguments() {
  while [ $# -gt 0 ]; do
    case "$1" in
    --from) need_value $# "$1" && from="$2" && shift 2 ;;
    --prefix) need_value $# "$1" && prefix="$2" && shift 2 ;;
    --bin-dir) need_value $# "$1" && bin_dir="$2" && shift 2 ;;
    --version) need_value $# "$1" && version="${2#v}" && shift 2 ;;
    --no-completions) completions=no && shift ;;
    -h | --help)
      say "sh install.sh [--from FOLDER|URL] [--prefix DIR] [--bin-dir DIR] [--version X.Y.Z] [--no-completions]"
      exit 0
      ;;
    *) fail "unknown option $1" "sh install.sh --help" ;;
    esac
  done
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix="${HOME:?}/.local"; fi
  fi
  bin_dir="${bin_dir:-$prefix/bin}"
  if [ -z "$from" ] && [ -f "$0" ] && [ -f "$(dirname "$0")/SHA256SUMS" ]; then
    from="$(dirname "$0")"
  fi
  [ -n "$from" ] || fail "it is not known where the archives lie" "give --from FOLDER, --from URL or PROCTOR_DIST_URL"
}

find_target() {
  case "$(uname -m)" in
  x86_64 | amd64) arch=x86_64 ;;
  aarch64 | arm64) arch=aarch64 ;;
  *) fail "no archive for $(uname -m)" "build it: cargo install --path crates/cli" ;;
  esac
  case "$(uname -s)" in
  Linux) target="$arch-unknown-linux-gnu" ;; # static: any C library will do, and none
  Darwin)
    # A shell under Rosetta calls Apple's own processor by the other name.
    [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" != 1 ] || arch=aarch64
    target="$arch-apple-darwin"
    ;;
  *) fail "no archive for $(uname -s)" "on Windows, use install.ps1" ;;
  esac
}

fetch() { # fetch NAME: from the folder or the URL into the temporary folder
  case "$from" in
  http://* | https://*)
    if has curl; then
      curl --fail --silent --show-error --location --output "$work/$1" "${from%/}/$1"
    elif has wget; then
      wget --quiet --output-document="$work/$1" "${from%/}/$1"
    else
      fail "there is neither curl nor wget" "install one, or fetch the archive and use --from FOLDER"
    fi
    ;;
  *) cp "${from#file://}/$1" "$work/$1" ;;
  esac || fail "$1 cannot be had from $from" "see above; is --from right?"
}

choose() { # the line of SHA256SUMS for this machine
  matching="$(grep -E "^[0-9a-f]{64}  proctor-${version:-[^/]*}-$target\.tar\.gz\$" "$work/SHA256SUMS" || true)"
  case "$(printf '%s' "$matching" | grep -c .)" in
  0) fail "$from has no archive${version:+ of $version} for $target" "build it: cargo install --path crates/cli" ;;
  1) ;;
  *) fail "$from has several versions for $target" "choose one with --version X.Y.Z" ;;
  esac
  sum="${matching%% *}"
  archive="${matching##* }"
}

sum_of() {
  if has sha256sum; then
    sha256sum "$1"
  elif has shasum; then
    shasum -a 256 "$1"
  elif has openssl; then
    openssl dgst -sha256 -r "$1"
  else
    fail "sha256sum, shasum and openssl are missing" "install one of them to verify the download"
  fi | sed 's/[^0-9a-f].*//'
}

place() { # place FILE MODE DIR NAME: by rename, so that a program that runs is not written over
  mkdir -p "$3" && cp "$1" "$3/.$4.$$" && chmod "$2" "$3/.$4.$$" && mv -f "$3/.$4.$$" "$3/$4" ||
    fail "$3/$4 cannot be written" "choose a folder of your own with --prefix, or run this as its owner"
}

install_programs() {
  place "$unpacked/proctor" 755 "$bin_dir" proctor
  for name in yb thunderdome; do
    # A link of ours may be renewed; a program of another is left alone.
    if [ -L "$bin_dir/$name" ] || [ ! -e "$bin_dir/$name" ]; then
      ln -sf proctor "$bin_dir/$name"
    else
      say "left alone: $bin_dir/$name, which is another program"
    fi
  done
  # macOS: the first process of containers.
  for linux in "$unpacked"/proctor-linux-*; do
    [ ! -f "$linux" ] || place "$linux" 755 "$bin_dir" "$(basename "$linux")"
  done
}

install_texts() {
  for text in "$unpacked"/*.md "$unpacked"/LICENSE-*; do
    place "$text" 644 "$prefix/share/doc/proctor" "$(basename "$text")"
  done
  [ "$completions" = yes ] || return 0
  place "$unpacked/completions/proctor.bash" 644 "$prefix/share/bash-completion/completions" proctor
  place "$unpacked/completions/_proctor" 644 "$prefix/share/zsh/site-functions" _proctor
  place "$unpacked/completions/proctor.fish" 644 "$prefix/share/fish/vendor_completions.d" proctor.fish
}

tell() {
  say "installed: $("$bin_dir/proctor" --version) in $bin_dir"
  case ":$PATH:" in
  *":$bin_dir:"*) ;;
  *) say "add it to PATH: export PATH=\"$bin_dir:\$PATH\"" ;;
  esac
  if [ "$completions" = yes ] && [ "$prefix" != /usr/local ]; then
    say "zsh finds completions after: fpath=($prefix/share/zsh/site-functions \$fpath); bash and fish by themselves, in ~/.local"
  fi
}

main() {
  read_arguments "$@"
  find_target
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' HUP INT TERM
  fetch SHA256SUMS
  choose
  fetch "$archive"
  [ "$(sum_of "$work/$archive")" = "$sum" ] ||
    fail "the checksum of $archive is not that of SHA256SUMS" "fetch it again; do not use it"
  tar -xzf "$work/$archive" -C "$work"
  unpacked="$work/${archive%.tar.gz}"
  install_programs
  install_texts
  tell
}

main "$@"
