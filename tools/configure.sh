#!/bin/sh
# configure.sh DIR [cmake options]: configures DIR once (cmake itself reconfigures when a CMake file changes), with Ninja
# where it is there. A folder configured from other options or by a failed run is configured again.
set -eu
cd "$(dirname "$0")/.."
dir=$1
shift
if ! command -v cmake >/dev/null; then
  echo "cmake is missing. tools/setup.sh installs what the build needs." >&2
  exit 1
fi
if [ -f "$dir/.configured" ] && [ "$(cat "$dir/.configured")" = "$*" ]; then exit 0; fi
mkdir -p "$dir"
rm -f "$dir/.configured" "$dir/CMakeCache.txt"
rm -rf "$dir/CMakeFiles/CMakeScratch"
if command -v ninja >/dev/null; then set -- -G Ninja "$@"; generated=1; else generated=0; fi
if ! cmake -S . -B "$dir" "$@"; then
  echo "Configuring failed. tools/setup.sh installs what the build needs." >&2
  exit 1
fi
[ "$generated" = 1 ] && shift 2
echo "$*" >"$dir/.configured"
