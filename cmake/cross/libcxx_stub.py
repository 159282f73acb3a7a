#!/usr/bin/env python3
"""libcxx_stub.py STUB FILE...: a list of names that stands for macOS's C++ library when FILEs, objects and archives, are linked:
the names of std and of the C++ runtime that they hold. Whether the oldest macOS has them, libc++'s headers say when they are
compiled (macos.cmake)."""
import pathlib
import re
import sys

NAME = re.compile(rb"\0(__Z[^\0]+|___(?:cxa|gxx|dynamic_cast)[^\0]*)(?=\0)")
RUNTIME = re.compile(r"___|__Z(d[al]|n[aw]|(T[ISVT])?(N[KVR]*)?St|TVN10__cxxabiv1|TI(PK?)?[a-z]$)")
STUB = """--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos ]
install-name: '/usr/lib/libc++.1.dylib'
exports:
  - targets: [ arm64-macos ]
    symbols: [ {} ]
...
"""

names = set()
for file in sys.argv[2:]:
    names.update(name.decode() for name in NAME.findall(pathlib.Path(file).read_bytes()))
std = sorted(name for name in names if RUNTIME.match(name) and "lathe" not in name)
pathlib.Path(sys.argv[1]).write_text(STUB.format(", ".join(f"'{name}'" for name in std)))
