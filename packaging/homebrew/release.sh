#!/bin/sh
# release.sh URL TARBALL: prints the formula for a release whose tarball lies at URL and here.
set -eu
if [ $# != 2 ] || [ ! -f "$2" ]; then
  echo "usage: packaging/homebrew/release.sh URL TARBALL >lathe.rb" >&2
  exit 2
fi
sum=$( (sha256sum "$2" 2>/dev/null || shasum -a 256 "$2") | cut -d' ' -f1)
sed -e '/^# url and sha256/d' -e "s|^  url .*|  url \"$1\"|" -e "s|^  sha256 .*|  sha256 \"$sum\"|" "$(dirname "$0")/lathe.rb"
