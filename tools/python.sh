#!/bin/sh
# The Python of build/venv (tools/setup.sh --test) where it is there, else the system's.
venv="$(dirname "$0")/../build/venv/bin/python3"
[ -x "$venv" ] && exec "$venv" "$@"
exec python3 "$@"
