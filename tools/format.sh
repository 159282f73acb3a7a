#!/bin/sh
# Formats every C++ file with clang-format 14; --check only says which ones differ.
set -eu
cd "$(dirname "$0")/.."
tool=
for candidate in clang-format-14 clang-format; do
  if command -v $candidate >/dev/null && $candidate --version | grep -q 'version 14\.'; then tool=$candidate; break; fi
done
if [ -z "$tool" ]; then
  echo "clang-format 14 is not here (tools/setup.sh --test installs it on Debian and Ubuntu): format not checked" >&2
  [ "$(uname)" = Darwin ] && [ "${1:-}" = --check ]   # Homebrew has no version 14; other versions format differently
  exit
fi
how=-i
[ "${1:-}" = --check ] && how="--dry-run -Werror"
find lathe tests bench examples python -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort | xargs $tool $how
