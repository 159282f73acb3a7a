#!/usr/bin/env bash
# fuzz.sh SECONDS [NAME...]: builds the fuzz targets with clang and runs each for that long, as many at a time as there
# are cores. Starts from tests/fuzz/NAME (kept in git); what it finds new goes to build/fuzz/corpus/NAME, what fails to
# build/fuzz/failed/NAME-*. The seed is 1, so that a run can be repeated; LATHE_FUZZ_SEED=0 draws one.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift
cores=$(getconf _NPROCESSORS_ONLN)
compiler=$(tools/sanitizer_compiler.sh)
if [ -z "$compiler" ]; then
  echo "clang with libFuzzer is not here (tools/setup.sh --test installs it on Debian and Ubuntu): fuzzing left out"
  exit 0
fi
tools/configure.sh build/dev --preset fuzz -DCMAKE_CXX_COMPILER="$compiler"
cmake --build build/dev -j "$cores" --target fuzzers
names=${*:-$(cat build/dev/fuzzers.txt)}
mkdir -p build/fuzz/failed

fuzz_one() {
  local name=$1 seconds=$2 corpus=build/fuzz/corpus/$1
  mkdir -p "$corpus"
  if build/dev/"$name" -max_total_time="$seconds" -seed="${LATHE_FUZZ_SEED:-1}" -timeout=60 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
      -artifact_prefix=build/fuzz/failed/"$name"- "$corpus" $(ls -d tests/fuzz/"$name" 2>/dev/null) \
      >build/fuzz/"$name".log 2>&1; then
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/"$name".log) inputs, no failure"
  else
    tail -n 60 build/fuzz/"$name".log
    echo "$name: FAILED; the input is build/fuzz/failed/$name-*"
    return 1
  fi
}
export -f fuzz_one
# shellcheck disable=SC2086  # a list of words
printf '%s\n' $names | xargs -P "$cores" -I{} bash -c "fuzz_one {} $seconds"
