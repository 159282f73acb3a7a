#!/usr/bin/env bash
# Installs what the build needs: Debian 12, Ubuntu 24.04 (apt) or macOS (Homebrew). Says first what is missing and what
# it will run; sudo only if not root; does nothing where everything is there. Apache Arrow, for Parquet, comes from the
# Python wheel pyarrow into build/venv-parquet; without the network the rest goes on.
#   --parquet   ends with an error where that cannot be had
#   --mlx       also MLX, for the device mps: build/venv-mlx, from its wheel
#   --deb       also what `make deb` needs: what finds out which libraries a package needs
#   --wheel     also what `make wheel` needs: Python's headers, and build/venv-wheel with nanobind
#   --docs      also what `make docs` needs: build/venv-docs, with a reader of Markdown
#   --cross     also what tools/cross_macos.sh needs: build/venv-cross, with Zig's clang and a reader of Mach-O
#   --test      also what `make test` needs, and build/venv with a few small Python wheels
#   --full      also what `make test-full` needs: a compiler and an emulator for ARM where the packages are to be had, and
#               build/venv-full with torch and transformers (gigabytes), unless LATHE_HF_PYTHON names a Python that has
#               them
#   --dry-run   only says
set -euo pipefail
cd "$(dirname "$0")/.."

# Every package by name, once.
APT_BUILD="g++ cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev libutf8proc-dev zlib1g-dev libssl-dev
           libcurl4-openssl-dev libgloo-dev python3-venv"
APT_DEB="dpkg-dev file"
APT_WHEEL="python3-dev binutils"
APT_TEST="libgtest-dev $APT_DEB $APT_WHEEL clang-format-14 clang-19 libclang-rt-19-dev zsh fish lintian ruby
          libopenmpi-dev openmpi-bin iproute2 libopenblas0-pthread"
APT_PACKAGES="debootstrap chromium fonts-dejavu-core slurm-wlm munge"   # a root to install into, a browser for the docs
APT_FULL="g++-aarch64-linux-gnu qemu-user-static"   # on x86-64
BREW_BUILD="cmake ninja ccache pkg-config fmt nlohmann-json utf8proc"
BREW_TEST="googletest python@3"

parquet=no mlx=no deb=no wheel=no docs=no cross=no test_too=no full=no dry_run=no
for argument in "$@"; do
  case $argument in
    --parquet) parquet=yes ;;
    --mlx) mlx=yes ;;
    --deb) deb=yes ;;
    --wheel) wheel=yes ;;
    --docs) docs=yes ;;
    --cross) cross=yes ;;
    --test) test_too=yes ;;
    --full) test_too=yes full=yes ;;
    --dry-run) dry_run=yes ;;
    *) echo "setup.sh: found $argument, knows --parquet, --mlx, --deb, --wheel, --docs, --cross, --test, --full and --dry-run" >&2; exit 2 ;;
  esac
done

run() {   # run COMMAND...: shows it, and runs it unless --dry-run
  echo "+ $*"
  if [ $dry_run = no ]; then "$@"; fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then run "$@"
  elif command -v sudo >/dev/null; then run sudo "$@"
  else
    echo "setup.sh: root is needed and sudo is not here. As root, run: $*" >&2
    exit 1
  fi
}

setup_apt() {   # setup_apt PACKAGE...: installs those that are missing
  local missing=""
  for package in "$@"; do
    if ! dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed'; then
      missing="$missing $package"
    fi
  done
  if [ -z "$missing" ]; then return; fi
  echo "Missing packages:$missing"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -qq
  # shellcheck disable=SC2086  # a list of words
  as_root apt-get install -y -qq --no-install-recommends $missing
}

setup_brew() {
  if ! xcode-select -p >/dev/null 2>&1; then
    echo "The compiler is missing. Run 'xcode-select --install', then this again." >&2
    exit 1
  fi
  local wanted=$BREW_BUILD missing=""
  if [ $test_too = yes ]; then wanted="$wanted $BREW_TEST"; fi
  for package in $wanted; do
    if ! brew list --formula --versions "$package" >/dev/null 2>&1; then missing="$missing $package"; fi
  done
  if [ -z "$missing" ]; then return; fi
  echo "Missing packages:$missing"
  # shellcheck disable=SC2086
  run brew install $missing
}

library_of() { "$1" -c 'import os; print(os.path.realpath(os.__file__))' 2>/dev/null; }   # tells Pythons apart

# setup_venv FOLDER REQUIREMENTS [OPTIONS]: the python3 on the path with these wheels. With OPTIONS of pip, first what
# these give, if anything.
setup_venv() {
  if cmp -s "$2" "$1/installed.txt" && [ "$(library_of "$1/bin/python3")" = "$(library_of python3)" ]; then return; fi
  echo "Missing Python wheels in $1: $(grep -v ^- "$2" | tr '\n' ' ')"
  run python3 -m venv --clear "$1" || exit 1
  # shellcheck disable=SC2086  # a list of words
  if [ -n "${3:-}" ]; then run "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 $3 2>/dev/null || true; fi
  if ! run "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"; then
    echo "setup.sh: pip could not fetch the wheels of $2. They come from the network, or from where pip is told to look." >&2
    return 1
  fi
  run cp "$2" "$1/installed.txt"
}

setup_venv_or_skip() { setup_venv "$@" || echo "Tests that need them will be reported as skipped." >&2; }

# Apache Arrow's C++ library with its headers, unless a package or build/venv has it.
setup_parquet() {
  if pkg-config --exists parquet 2>/dev/null ||
     compgen -G 'build/venv/lib/python3*/site-packages/pyarrow/include/parquet/arrow/reader.h' >/dev/null; then return; fi
  (setup_venv build/venv-parquet tools/requirements-parquet.txt) && return
  echo "Parquet, which most data of the Hub is in (GLUE, SQuAD), cannot be read until 'make parquet' has fetched Apache" \
       "Arrow. Everything else works." >&2
  return 1
}

if command -v apt-get >/dev/null; then
  wanted=$APT_BUILD
  if [ $deb = yes ]; then wanted="$wanted $APT_DEB"; fi
  if [ $wheel = yes ]; then wanted="$wanted $APT_WHEEL"; fi
  if [ $test_too = yes ]; then wanted="$wanted $APT_TEST"; fi
  # shellcheck disable=SC2086  # lists of words
  setup_apt $wanted
  # shellcheck disable=SC2086
  if [ $full = yes ]; then
    (setup_apt $APT_PACKAGES) || echo "$APT_PACKAGES could not be installed. Tests that need them will be reported as skipped." >&2
  fi
  if [ $full = yes ] && [ "$(uname -m)" = x86_64 ]; then
    # shellcheck disable=SC2086
    (setup_apt $APT_FULL) || echo "$APT_FULL could not be installed. Tests for ARM will be left out." >&2
  fi
elif command -v brew >/dev/null; then setup_brew
else
  echo "setup.sh knows apt (Debian, Ubuntu) and Homebrew (macOS). Install by hand: $APT_BUILD" >&2
  exit 1
fi
if [ $mlx = yes ]; then setup_venv_or_skip build/venv-mlx tools/requirements-mlx.txt; fi
if [ $wheel = yes ]; then setup_venv build/venv-wheel tools/requirements-wheel.txt; fi
if [ $docs = yes ]; then setup_venv build/venv-docs tools/requirements-docs.txt; fi
if [ $cross = yes ]; then setup_venv_or_skip build/venv-cross tools/requirements-cross.txt; fi
if [ $test_too = yes ]; then setup_venv_or_skip build/venv tools/requirements-test.txt; fi
if ! setup_parquet && [ $parquet = yes ]; then exit 1; fi
if [ $full = yes ]; then
  if [ -z "${LATHE_HF_PYTHON:-}" ]; then   # PyTorch's own index has a build without CUDA, a tenth of the size
    setup_venv_or_skip build/venv-full tools/requirements-full.txt "--index-url https://download.pytorch.org/whl/cpu torch"
  elif "$LATHE_HF_PYTHON" -c 'import torch, transformers'; then echo "torch and transformers: those of $LATHE_HF_PYTHON"
  else
    echo "setup.sh: LATHE_HF_PYTHON is $LATHE_HF_PYTHON, which has no torch and transformers. Unset it, or name one that" \
         "has them." >&2
    exit 1
  fi
fi
