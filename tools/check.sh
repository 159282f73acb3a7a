#!/usr/bin/env bash
# What `make check` does before a commit: make lint, and the tests next to the code of the rooms that differ from the last
# commit (or from $LATHE_TEST_SINCE), under the sanitizers. For what spans rooms there is make test.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/check_layers.py
tools/format.sh --check
since=${LATHE_TEST_SINCE:-HEAD}
# The test of a path's room: lathe/backends/cpu/isa/a.h → test_cpu, lathe/io/hub/b.cc → test_io.
tests=$({ git diff --name-only "$since" -- lathe tests/train; git ls-files --others --exclude-standard -- lathe tests/train; } |
  sed -nE 's#^lathe/backends/([a-z]+)/.*#test_\1#p; s#^lathe/([a-z]+)/.*#test_\1#p; s#^tests/train/.*#test_training#p' | sort -u)
if [ -z "$tests" ]; then echo "check: no room differs from $since"; exit 0; fi
compiler=$(tools/sanitizer_compiler.sh)
if [ -n "$compiler" ]; then tools/configure.sh build/dev --preset fuzz -DCMAKE_CXX_COMPILER="$compiler"
else tools/configure.sh build/dev --preset dev
fi
known=$(cmake --build build/dev --target help)
for test in $tests; do
  if ! grep -qE "^$test:" <<<"$known"; then echo "check: $test: this room has no tests next to its code"; continue; fi
  cmake --build build/dev -j "$(getconf _NPROCESSORS_ONLN)" --target "$test"
  build/dev/"$test" --gtest_brief=1
done
