#!/usr/bin/env bash
# Compiles all of Lathe for Macs with Apple silicon, on Linux, and links it: the programs for macOS 12.3, the module of the
# device mps for macOS 14 against the library of MLX's wheel for macOS. Then tools/check_macos.py holds the files against
# what a Mac gives. Nothing of it runs here. Where that cannot be done it says why in a line "left out: ...".
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/macos root=$PWD/build/macos/root tree=build/macos/tree

leave_out() { echo "left out: cross-compiling for macOS: $1"; exit 0; }

case $(uname -s) in
  Darwin) leave_out "this is a Mac, where the other builds are for it" ;;
esac
tools/setup.sh --cross
python=$PWD/build/venv-cross/bin/python3
"$python" -c 'import lief, ziglang' 2>/dev/null || leave_out "the wheels of tools/requirements-cross.txt could not be fetched"

# MLX for the Mac: its headers, its CMake package and libmlx.dylib.
wanted=$(sed -n 's/;.*"darwin"$//p' tools/requirements-mlx.txt)
if [ "$(cat "$folder/mlx.txt" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$folder/wheel" "$root/mlx"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --retries 1 \
    --platform macosx_14_0_arm64 --python-version 3.12 -d "$folder/wheel" "$wanted" || leave_out "$wanted could not be fetched"
  "$python" -m zipfile -e "$folder"/wheel/*.whl "$root"
  echo "$wanted" >"$folder/mlx.txt"
fi

# What Homebrew gives on a Mac: headers of this machine's packages. Names of the libraries: cmake/cross/stubs.
mkdir -p "$root/include" "$root/lib"
for header in fmt nlohmann utf8proc.h curl; do
  place=$(find /usr/include /usr/include/*-linux-gnu -maxdepth 1 -name "$header" -print -quit)
  if [ -z "$place" ]; then leave_out "$header is not in /usr/include; tools/setup.sh installs it"; fi
  ln -sfn "$place" "$root/include/$header"
done
ln -sf "$PWD"/cmake/cross/stubs/*.tbd "$root/lib/"

# ccache would look at the script that calls Zig.
CCACHE_COMPILERCHECK="string:$(sed -n 's/==/-/p' tools/requirements-cross.txt)"
export CCACHE_COMPILERCHECK
# Nothing is optimised but the kernels, whose files say so themselves.
layers="core;program;ops;nn;optim;io;text;tokenizers;data;tasks;models;settings;engine;train;report;group;ref;cpu;cuda;mlx;backends;api;app"
tools/configure.sh $tree "-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/cross/macos.cmake" "-DLATHE_CROSS_ROOT=$root" \
  "-DMLX_DIR=$root/mlx/share/cmake/MLX" -DLATHE_MLX=ON -DLATHE_UNITY=ON -DCMAKE_BUILD_TYPE=Release "-DLATHE_QUICK_TO_COMPILE=$layers" \
  -DLATHE_TESTS=OFF -DLATHE_EXAMPLES=OFF -DLATHE_PYTHON=OFF -DLATHE_PARQUET=OFF -DLATHE_GLOO=OFF -DLATHE_MPI=OFF
cmake --build $tree -j "$(getconf _NPROCESSORS_ONLN)"
"$python" tools/check_macos.py $tree "$root/mlx/lib"
