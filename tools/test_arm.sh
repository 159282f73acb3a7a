#!/usr/bin/env bash
# Compiles for 64-bit ARM and runs, under qemu, all ops with the kernels of each instruction set of that architecture, the
# other conformance and parity tests, and the unit tests: once with Debian's cross compiler, once with clang and libc++ as a
# Mac has them (those of tools/cross_macos.sh). arm64 packages are unpacked into build/arm/packages, not installed. What is
# not done it says in a line "left out: ...".
#   test_arm.sh [g++ | clang]   only the half of this compiler
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1-} in
  "" | g++ | clang) only=${1-} ;;
  *) echo "test_arm.sh: found $1, knows g++ and clang" >&2; exit 2 ;;
esac
cores=$(getconf _NPROCESSORS_ONLN)
packages=$PWD/build/arm/packages
wanted="libfmt-dev libfmt9 libgtest-dev libutf8proc-dev nlohmann-json3-dev zlib1g-dev libssl-dev
        libcurl4-openssl-dev googletest libc6"   # 9 MB

leave_out() { echo "left out: ARM under qemu: $1"; }

# The packages of the other architecture, through this machine's own package sources but with lists of its own.
fetch_packages() {
  if [ "$(cat "$packages/complete" 2>/dev/null)" = "$wanted" ]; then return 0; fi
  rm -rf "$packages"
  mkdir -p "$packages"/{lists/partial,cache/archives/partial,files}
  : >"$packages/status"
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$packages/lists"
             -o Dir::State::status="$packages/status" -o Dir::Cache="$packages/cache" -o APT::Sandbox::User="$(id -un)")
  "${apt[@]}" update || return 1
  # shellcheck disable=SC2086  # a list of words
  (cd "$packages/files" && "${apt[@]}" download $wanted) || return 1
  for file in "$packages"/files/*.deb; do dpkg-deb -x "$file" "$packages" || return 1; done
  echo "$wanted" >"$packages/complete"
}

# build_and_test TREE COMPILER [options of cmake]
build_and_test() {
  local tree=$1 compiler=$2 suites
  shift 2
  # What the emulator runs finds its C library in the packages, if it is not in the program.
  tools/configure.sh "$tree" -DCMAKE_BUILD_TYPE=Release -DLATHE_EXAMPLES=OFF -DLATHE_PARQUET=OFF \
    "-DCMAKE_CROSSCOMPILING_EMULATOR=$emulator;-L;$packages;-cpu;max" "$@"
  suites=$(basename -s .cc tests/conformance/*_test.cc tests/parity/*_test.cc)
  # shellcheck disable=SC2086  # a list of words
  cmake --build "$tree" -j "$cores" --target unit_tests lathe-ops $suites
  run_ctest() { ctest --test-dir "$tree" -j "$cores" --output-on-failure --no-tests=error "$@"; }
  # Kernels of the highest level and of all below it, an op a process: one process leaves cores idle at its end. Ops that
  # the CPU leaves to their parts ("-") have no cases, which is an error where one is named.
  echo "ARM under qemu, $compiler: ops"
  local ops=("$emulator" -L "$packages" -cpu max "$tree/lathe-ops")
  LATHE_ISA=neon_bf16 "${ops[@]}" support -b cpu | awk 'NR > 1 && $3 != "-" { print $1 }' |
    LATHE_ISA=neon_bf16 xargs -P "$cores" -I OP "${ops[@]}" test -b cpu -o OP |
    awk '!/^[0-9]+ passed, 0 failed$/; / passed, / { passed += $1; failed += $3 }
         END { print passed + 0 " passed, " failed + 0 " failed in all ops"; exit passed == 0 || failed > 0 }'
  echo "ARM under qemu, $compiler: conformance, parity"
  LATHE_ISA=neon_bf16 run_ctest -L '^(conformance|parity)$' -E '^parity\.Mrpc/|^conformance\.Devices/Conformance\..*/cpu( |$)'
  leave_out "50 steps of a real model (parity.Mrpc): hours"
  # Within a model the levels differ in products of bf16 and of int8 (kernel_of in gemm.cc, int8_kernel in gemm_int8.cc).
  LATHE_ISA=neon run_ctest -R '^conformance\.(All/Families|Devices/RoundedGradients\..*/cpu)'
  leave_out "the other tests of models at neon; all at neon_dot, which has neon's products of bf16 and neon_bf16's of int8"
  echo "ARM under qemu, $compiler: unit tests"
  run_ctest -L '^unit$'
}

case $(uname -sm) in
  "Linux x86_64") ;;
  *) leave_out "made for Linux on x86-64; on ARM the other tests run it already"; exit 0 ;;
esac
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
  { leave_out "qemu-user-static is missing; tools/setup.sh --full installs it"; exit 0; }
command -v apt-get >/dev/null || { leave_out "its libraries come as Debian packages, and apt-get is not here"; exit 0; }
fetch_packages || { leave_out "the package sources of this machine do not give $wanted for arm64"; exit 0; }

if [ "$only" = clang ]; then leave_out "g++: only clang was asked for"
elif command -v aarch64-linux-gnu-g++ >/dev/null; then
  build_and_test build/arm g++ \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu "-DCMAKE_FIND_ROOT_PATH=$packages" \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
    "-DCMAKE_CXX_FLAGS=-isystem $packages/usr/include -isystem $packages/usr/include/aarch64-linux-gnu" \
    -DCMAKE_EXE_LINKER_FLAGS=-static
else
  leave_out "g++-aarch64-linux-gnu is missing; tools/setup.sh --full installs it"
fi

if [ "$only" = g++ ]; then
  leave_out "clang and libc++: only g++ was asked for"
  exit 0
fi
tools/setup.sh --cross
if build/venv-cross/bin/python3 -c 'import ziglang' 2>/dev/null; then
  # ccache would look at the script that calls Zig.
  CCACHE_COMPILERCHECK="string:$(sed -n 's/==/-/p' tools/requirements-cross.txt)"
  export CCACHE_COMPILERCHECK
  build_and_test build/arm-libcxx "clang and libc++" \
    "-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/cross/aarch64_linux.cmake" "-DLATHE_CROSS_ROOT=$packages"
else
  leave_out "clang and libc++: the wheels of tools/requirements-cross.txt could not be fetched"
fi
