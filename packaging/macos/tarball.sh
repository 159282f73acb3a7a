#!/usr/bin/env bash
# tarball.sh BUILD OUT: OUT/lathe-macos-arm64.tar.gz of a build with MLX (make MLX=1), to be unpacked anywhere:
#   bin/lathe, lib/lathe/lathe_mlx.so with the libraries of MLX and mlx.metallib next to it, the part for Parquet, share/
# Signed ad hoc. Needs macOS's otool, install_name_tool and codesign.
set -euo pipefail
if [ $# != 2 ]; then
  echo "usage: packaging/macos/tarball.sh BUILD OUT" >&2
  exit 2
fi
if [ "$(uname -s)" != Darwin ]; then
  echo "tarball.sh: this is $(uname -s); the tarball is made on a Mac" >&2
  exit 1
fi
build=$1 out=$2 name=lathe-macos-arm64
stage=$out/$name parts=$out/$name/lib/lathe
rm -rf "$stage"
cmake --build "$build"   # make builds the one program and its parts
cmake --install "$build" --strip --component programs --prefix "$stage"
cmake --install "$build" --strip --component wheel_parts --prefix "$stage"

# MLX lies where the module was linked with it.
mlx=$(otool -l "$parts/lathe_mlx.so" | awk '$1 == "path" && $2 != "@loader_path" { print $2; exit }')
cp "$mlx"/*.dylib "$mlx"/mlx.metallib "$parts/"
install_name_tool -delete_rpath "$mlx" "$parts/lathe_mlx.so"

foreign=$(for file in "$stage"/bin/lathe "$stage"/bin/lathe-ops "$parts"/*; do otool -L "$file" 2>/dev/null || true; done |
          awk '$1 ~ /^\// && $1 !~ /^\/(usr\/lib|System)\// && $1 !~ /:$/ { print $1 }' | sort -u)
if [ -n "$foreign" ]; then
  echo "tarball.sh: found libraries of this machine, expected only the system's (archives of fmt and utf8proc):" >&2
  echo "$foreign" >&2
  exit 1
fi
for file in "$parts"/*.dylib "$parts"/*.so "$stage"/bin/lathe "$stage"/bin/lathe-ops; do codesign --force --sign - "$file"; done
"$stage/bin/lathe" --version
tar -C "$out" -czf "$out/$name.tar.gz" "$name"
ls -l "$out/$name.tar.gz"
