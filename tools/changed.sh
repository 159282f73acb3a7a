#!/usr/bin/env bash
# changed.sh NAME: whether `make test` has to do the step NAME, whose paths tools/changed.txt lists: 0 if one of them has
# changed since the newest commit that is more than a day old (or since $LATHE_TEST_SINCE), in a commit or not yet in one.
# 0, too, where nothing can be told: no git, no such commit. `make test-full` does every step.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
paths=$(sed -n "s/^$name://p" tools/changed.txt)
if [ -z "$paths" ]; then
  echo "changed.sh: found the step $name, tools/changed.txt knows $(sed -n 's/^\([a-z]*\):.*/\1/p' tools/changed.txt | tr '\n' ' ')" >&2
  exit 2
fi
since=${LATHE_TEST_SINCE:-$(git rev-list -1 --before='24 hours ago' HEAD 2>/dev/null || true)}
if [ -z "$since" ]; then exit 0; fi
# shellcheck disable=SC2086  # a list of words
if git diff --quiet "$since" -- $paths && [ -z "$(git ls-files --others --exclude-standard -- $paths)" ]; then exit 1; fi
