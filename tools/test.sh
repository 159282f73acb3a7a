#!/usr/bin/env bash
# What `make test` does, in order; stops at the first thing that fails. --full adds what is long or large: every
# instruction set, ARM under an emulator, longer fuzzing, the tests labelled slow (the real packages among them).
set -euo pipefail
cd "$(dirname "$0")/.."
full=no
if [ "${1:-}" = --full ]; then full=yes; fi
cores=$(getconf _NPROCESSORS_ONLN)
fuzz_seconds=${LATHE_FUZZ_SECONDS:-10}
if [ $full = yes ]; then
  fuzz_seconds=${LATHE_FUZZ_SECONDS:-600}
  export LATHE_FUZZ_SEED=${LATHE_FUZZ_SEED:-0}
fi

# --full compiles every file apart, so that none lacks an include that its neighbours have, and runs the tests next to the
# code without a sanitizer, too; else only those whose optimised code is another.
unity=ON beside="core;ops;cpu;cuda"
if [ $full = yes ]; then unity=OFF beside=""; fi

cpu_seconds() {   # sets cpu: what all commands up to here have used
  local m s m2 s2
  mkdir -p build
  times >build/times.txt   # not in a pipe: a subshell has children of its own
  read -r m s m2 s2 < <(tail -n 1 build/times.txt | tr ms '  ')
  cpu=$(((m + m2) * 60 + ${s%[.,]*} + ${s2%[.,]*}))
}

last="" began=0
ended() {   # says what the last step has used; fails where that is more than tools/budgets.txt gives it
  cpu_seconds
  local used=$((cpu - began)) most
  began=$cpu
  if [ -z "$last" ]; then return; fi
  most=$(sed -n "s/^$last: *\([0-9]*\).*/\1/p" tools/budgets.txt)
  printf -- '---- %s: %d CPU-seconds%s\n' "$last" "$used" "${most:+ of $most}"
  if [ $full = no ] && [ -n "$most" ] && [ "$used" -gt $((most * ${LATHE_BUDGET_PERCENT:-100} / 100)) ]; then
    echo "$last took $used CPU-seconds, $most are its budget (tools/budgets.txt). LATHE_BUDGET_PERCENT=200 doubles all of them, for a slower machine."
    exit 1
  fi
}
step() {   # step NAME WHAT
  ended
  last=$1
  printf '\n==== %s (%d min %02d s)\n' "$2" $((SECONDS / 60)) $((SECONDS % 60))
}

run_ctest() {   # run_ctest DIR [options]: failures in full, the closing lines in any case
  ctest --test-dir "$1" -j "$cores" --output-on-failure --no-tests=error "${@:2}"
}

step setup "set-up"
if [ $full = yes ]; then
  tools/setup.sh --full --mlx
  export LATHE_HF_PYTHON=${LATHE_HF_PYTHON:-$PWD/build/venv-full/bin/python3}
else
  tools/setup.sh --test --mlx
fi
if [ -x tools/fetch_test_model.sh ]; then
  tools/fetch_test_model.sh || echo "The test model could not be fetched: its tests will be reported as skipped."
fi

step lint "layers and format"
tools/check_layers.py
tracked=$(git ls-files --cached --ignored --exclude-standard)  # what is built is not to be committed
if [ -n "$tracked" ]; then echo "committed, though .gitignore names it: $tracked"; exit 1; fi
tools/format.sh --check

# has_to NAME: whether a step is done that `make test` leaves out where what it tests has not changed.
has_to() {
  if [ $full = yes ] || tools/changed.sh "$1"; then return 0; fi
  echo "left out: $1: nothing of it has changed since yesterday (tools/changed.txt); make test-full does it"
  return 1
}

cuda=""   # where nvcc is: the cuda device too, for one architecture (tests that need a GPU are skipped without one)
if command -v nvcc >/dev/null && has_to cuda; then
  cuda="-DLATHE_CUDA=ON -DLATHE_CUDA_ARCHITECTURES=90a-real"
  if has_to oldest; then cuda="$cuda -DLATHE_CUDA_OLDEST=ON"; fi
fi

mlx=""    # where its wheel could be had: the device on MLX, on its build for the CPU
if ls build/venv-mlx/lib/python3*/site-packages/mlx/share/cmake >/dev/null 2>&1; then mlx="-DLATHE_MLX=ON"; fi

step release_build "release build, warnings as errors ${cuda:+and cuda} ${mlx:+and mlx}"
# shellcheck disable=SC2086  # lists of words
tools/configure.sh build/release -DCMAKE_BUILD_TYPE=Release -DLATHE_UNITY=$unity "-DLATHE_UNIT_TESTS_OF=$beside" $cuda $mlx
cmake --build build/release -j "$cores"

step macos "cross-compiled for macOS"
if has_to macos; then tools/cross_macos.sh; fi

step sanitized_build "unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, fuzz targets"
compiler=$(tools/sanitizer_compiler.sh)
if [ -n "$compiler" ]; then tools/configure.sh build/dev --preset fuzz -DCMAKE_CXX_COMPILER="$compiler"
else tools/configure.sh build/dev --preset dev
fi
cmake --build build/dev -j "$cores" --target unit_tests ${compiler:+fuzzers}
step sanitized_tests "these tests"
run_ctest build/dev -L '^unit$'

step threads "threaded tests under ThreadSanitizer"
threads="core;io;group;train"   # the others' threads are core's pool
if has_to threads; then threads=""; fi
tools/configure.sh build/tsan --preset tsan "-DLATHE_UNIT_TESTS_OF=$threads"
cmake --build build/tsan -j "$cores" --target unit_tests
run_ctest build/tsan -L '^unit$' -R Thread
build/tsan/test_group --gtest_brief=1 '--gtest_filter=-Transports/*'   # those fork

step fuzz "fuzzing, $fuzz_seconds s each"
tools/fuzz.sh "$fuzz_seconds"

if [ $full = yes ]; then
  for isa in portable avx2 avx2_vnni avx512 avx512_vnni avx512_bf16 amx neon neon_dot neon_bf16; do
    step "isa_$isa" "conformance and parity with LATHE_ISA=$isa"
    if LATHE_ISA=$isa build/release/lathe-ops support -b cpu >/dev/null; then
      LATHE_ISA=$isa run_ctest build/release -L '^(conformance|parity)$'
    else
      echo "left out: LATHE_ISA=$isa: this machine does not run it"
    fi
  done
  step arm "ARM"
  tools/test_arm.sh
  step tests "all tests and the slow ones (real transformers, BERT-base, 1,000 steps), release build"
  run_ctest build/release
else
  step tests "all tests, release build"
  run_ctest build/release -LE '^slow$'
fi
ended
