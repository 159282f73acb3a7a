#!/usr/bin/env bash
# tarball.sh BUILD OUT: OUT/lathe-linux-ARCH.tar.gz of a build (make tarball), to be unpacked anywhere:
#   bin/lathe, lib/lathe with the part that reads Parquet and Apache Arrow's libraries, share/
# The program needs only glibc; the part libstdc++, too.
set -euo pipefail
if [ $# != 2 ]; then
  echo "usage: packaging/linux/tarball.sh BUILD OUT" >&2
  exit 2
fi
if [ "$(uname -s)" != Linux ]; then
  echo "tarball.sh: this is $(uname -s); packaging/macos/tarball.sh makes the tarball of a Mac" >&2
  exit 1
fi
build=$1 out=$2 name=lathe-linux-$(uname -m)
stage=$build/tarball/$name
rm -rf "$stage"
mkdir -p "$out"
cmake --install "$build" --strip --component programs --prefix "$stage" >/dev/null
rm -f "$stage"/lib/lathe/liblathe_gloo.so   # stands on a library that other systems may not have

files=$(find "$stage/bin" "$stage/lib" -type f)
# shellcheck disable=SC2086  # a list of words
said=$(objdump -Tp $files)
foreign=$(awk '$1 == "NEEDED" { print $2 }' <<<"$said" | sort -u |
          grep -vE '^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|arrow|parquet)\.so\..*)$' || true)
if [ -n "$foreign" ]; then
  echo "tarball.sh: found libraries that other systems may not have, expected only glibc, libstdc++ and Arrow's: ${foreign//$'\n'/, }" >&2
  exit 1
fi
tar -C "$build/tarball" --owner=0 --group=0 -czf "$out/$name.tar.gz" "$name"
glibc=$(grep -o 'GLIBC_[0-9.]*' <<<"$said" | sort -V | tail -n 1)
echo "$out/$name.tar.gz ($(du -m "$out/$name.tar.gz" | cut -f 1) MB), for glibc ${glibc#GLIBC_} and later"
