#!/usr/bin/env bash
# manylinux.sh OUT PYTHON...: the tarball and a wheel for each Python (cp311-cp311 ...) that run with glibc 2.28 and later.
# Runs as root in the container quay.io/pypa/manylinux_2_28_ARCH, which is AlmaLinux 8 (.github/workflows/release.yml).
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# -lt 2 ] || [ ! -d /opt/python ]; then
  echo "usage, in the container manylinux_2_28: packaging/linux/manylinux.sh OUT PYTHON..." >&2
  exit 2
fi
out=$1
shift
libraries=$PWD/build/libraries cores=$(getconf _NPROCESSORS_ONLN)

# The compiler is the one of Debian 12. Gloo is not here.
dnf install -y -q --enablerepo=powertools gcc-toolset-12-gcc-c++ cmake ninja-build libcurl-devel openssl-devel openssl-static \
  zlib-devel zlib-static
set +u
# shellcheck disable=SC1091  # a file of the container
source /opt/rh/gcc-toolset-12/enable
set -u

# library REPOSITORY TAG COMMIT [OPTIONS]: what AlmaLinux has no archive of; the versions are those of Debian 12
library() {
  local folder=build/sources/${1##*/}
  [ -d "$folder" ] || git -c advice.detachedHead=false clone -q --depth 1 --branch "$2" "https://github.com/$1" "$folder"
  if [ "$(git -C "$folder" rev-parse HEAD)" != "$3" ]; then
    echo "manylinux.sh: $1: tag $2 is commit $(git -C "$folder" rev-parse HEAD), expected $3" >&2
    exit 1
  fi
  cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$libraries" "${@:4}" >/dev/null
  cmake --build "$folder/build" --target install >/dev/null
}
library fmtlib/fmt 9.1.0 a33701196adfad74917046096bf5a2aa0ab0bb50 -DFMT_TEST=OFF -DFMT_DOC=OFF
library nlohmann/json v3.11.2 bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d -DJSON_BuildTests=OFF
library JuliaStrings/utf8proc v2.8.0 1cb28a66ca79a0845e99433fd1056257456cef8b

for python in "$@"; do
  /opt/python/"$python"/bin/python3 -m venv --clear build/venv-wheel
  build/venv-wheel/bin/pip install -q -r tools/requirements-wheel.txt -r tools/requirements-parquet.txt
  tools/configure.sh build/package -DCMAKE_BUILD_TYPE=Release -DLATHE_TESTS=OFF -DLATHE_UNITY=ON -DLATHE_EXAMPLES=OFF \
    -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_PREFIX_PATH=$libraries" "-DLATHE_PYARROW=$(echo "$PWD"/build/venv-wheel/lib/python3*/site-packages/pyarrow)" \
    "-DLATHE_PYTHON_PROGRAM=$(echo build/venv-wheel/bin/python3.*)"
  cmake --build build/package -j "$cores"
  build/venv-wheel/bin/python3 tools/make_wheel.py build/package "build/wheel-$python"
  mkdir -p "$out"
  mv "build/wheel-$python"/*.whl "$out"
done
packaging/linux/tarball.sh build/package "$out"
newer=$(find "$out" -name '*.whl' ! -name '*manylinux_2_1[0-9]_*' ! -name '*manylinux_2_2[0-8]_*')
if [ -n "$newer" ]; then
  echo "manylinux.sh: found $newer, expected wheels for glibc 2.28 and older" >&2
  exit 1
fi
