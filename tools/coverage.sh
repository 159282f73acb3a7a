#!/usr/bin/env bash
# Line coverage of lathe/backends/mlx by tests that `make test` runs with it, on MLX's CPU build: a build of the module and of the
# simulator of its Metal kernels with gcov's counters (build/coverage), under the programs and tests of build/release. Prints the
# share of every file, in all, and each line that nothing ran. load.cc is no part of the module, but of every program: it is
# not counted.
set -euo pipefail
cd "$(dirname "$0")/.."
cores=$(getconf _NPROCESSORS_ONLN)
tools/configure.sh build/release -DCMAKE_BUILD_TYPE=Release -DLATHE_MLX=ON
tests=(test_api test_conformance test_parity)
cmake --build build/release -j "$cores" --target program_lathe program_lathe-ops lathe_mlx_module "${tests[@]}"
tools/configure.sh build/coverage -DCMAKE_BUILD_TYPE=Release -DLATHE_EXAMPLES=OFF -DLATHE_MLX=ON -DLATHE_MLX_COVERAGE=ON
cmake --build build/coverage -j "$cores" --target lathe_mlx_module metal_simulator
find build/coverage -name '*.gcda' -delete

export LATHE_MLX_MODULE=$PWD/build/coverage/lathe_mlx.so
ctest --test-dir build/release -j "$cores" --output-on-failure --no-tests=error -LE '^slow$' -R '[Mm]lx|Mps'
LATHE_BINARY_DIR=$PWD/build/coverage python3 tests/conformance/metal_kernels_test.py MetalKernels.test_first_lanes_first

# Module and simulator have some files in common, templates and inlined functions have their lines several times: a line ran if
# one of them did.
root=$PWD lines=build/coverage/lines
rm -rf $lines
for part in module simulator; do
  mkdir -p $lines/$part
  find "$root/build/coverage" -path "*$part.dir/lathe/backends/mlx/*.gcda" -print0 |
    (cd $lines/$part && xargs -0 gcov --relative-only --source-prefix "$root" >/dev/null)
done
awk -F: '{ count = $1; line = $2 + 0; gsub(/ /, "", count) }
         line == 0 { if ($3 == "Source") file = $4; next }
         file !~ /^lathe\/backends\/mlx\// || count == "-" { next }
         { place = file ":" line; known[place] = file; if (count !~ /^[#=]/) ran[place] = 1; else text[place] = $0 }
         END {
           for (place in known) { ++all[known[place]]; ++all["lathe/backends/mlx"] }
           for (place in ran) { ++good[known[place]]; ++good["lathe/backends/mlx"] }
           for (file in all) printf "%6.2f %% of %4d  %s\n", 100 * good[file] / all[file], all[file], file | "sort -k5"
           close("sort -k5")
           for (place in known) if (!(place in ran)) { sub(/^[^:]*:[^:]*:/, "", text[place]); print place ":" text[place] | "sort -t: -k1,1 -k2,2n" }
         }' $lines/*/*.gcov
