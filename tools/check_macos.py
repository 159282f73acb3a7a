#!/usr/bin/env python3
"""check_macos.py BUILD MLX: holds lathe, lathe-ops and lathe_mlx.so of BUILD, cross-compiled by tools/cross_macos.sh, against
what a Mac gives: kind of file, oldest macOS, signature, size, and for every name that is not in the file the library that it
is looked for in. MLX is the folder of libmlx.dylib, whose names are looked up one by one."""
import collections
import pathlib
import sys

import lief

SYSTEM, RUNTIME = "/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"
ZLIB, UTF8PROC = "/usr/lib/libz.1.dylib", "/opt/homebrew/opt/utf8proc/lib/libutf8proc.3.dylib"
MLX = "@rpath/libmlx.dylib"
# Name: kind, oldest macOS, the libraries that it may ask for, bytes it must stay below.
EXPECTED = {
    "lathe": ("EXECUTE", (12, 3), {SYSTEM, RUNTIME, ZLIB, UTF8PROC}, 30 << 20),
    "lathe-ops": ("EXECUTE", (12, 3), {SYSTEM, RUNTIME, ZLIB, UTF8PROC}, 30 << 20),
    "lathe_mlx.so": ("DYLIB", (14, 0), {SYSTEM, RUNTIME, MLX}, 30 << 20),
}


def read(path):
    """The Mach-O of one architecture, or None. Whoever asks holds it while he reads its lists: LIEF's do not."""
    binaries = lief.MachO.parse(str(path))
    return binaries.take(lief.MachO.Header.CPU_TYPE.ARM64) if binaries is not None and binaries.size == 1 else None


def faults_of(path, names_of):
    """What is wrong with the file, and how many of its names come from which library. names_of: those of MLX's libraries."""
    kind, oldest, allowed, limit = EXPECTED[path.name]
    binary = read(path)
    if binary is None:
        return [f"{path}: found no Mach-O of one architecture"], {}
    faults, counts = [], collections.Counter()

    def expect(what, found, wanted):
        if found != wanted:
            faults.append(f"{path}: {what}: found {found}, expected {wanted}")

    expect("processor", binary.header.cpu_type, lief.MachO.Header.CPU_TYPE.ARM64)
    expect("kind", binary.header.file_type, getattr(lief.MachO.Header.FILE_TYPE, kind))
    expect("oldest macOS", tuple(binary.build_version.minos[:2]), oldest)
    expect("signature (ad hoc, by the linker)", binary.has_code_signature, True)
    if path.stat().st_size >= limit:
        faults.append(f"{path}: found {path.stat().st_size} bytes, expected less than {limit}")
    libraries = [library.name for library in binary.libraries   # a dylib's own name is among them
                 if library.command != lief.MachO.LoadCommand.TYPE.ID_DYLIB]
    for library in sorted(set(libraries) - allowed):
        faults.append(f"{path}: asks for {library}, which is not on every Mac (tools/check_macos.py lists what is)")
    for symbol in binary.imported_symbols:
        if symbol.numberof_sections != 0:   # it is in the file, and another library might have it, too
            continue
        ordinal = symbol.library_ordinal
        if not 0 < ordinal <= len(libraries):
            faults.append(f"{path}: {symbol.name} is in no library (ordinal {ordinal})")
            continue
        library = libraries[ordinal - 1]
        counts[library] += 1
        if library in names_of and symbol.name not in names_of[library]:
            faults.append(f"{path}: {symbol.name} is not in {library}")
    return faults, counts


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tools/check_macos.py BUILD MLX")
    lief.logging.disable()   # it wonders at Zig's empty tables
    build, mlx = map(pathlib.Path, sys.argv[1:])
    library = read(mlx / pathlib.PurePath(MLX).name)
    names_of = {MLX: {symbol.name for symbol in library.exported_symbols}}
    faults = []
    for name in EXPECTED:
        found, counts = faults_of(build / name, names_of)
        faults += found
        print(f"{name}: arm64, {(build / name).stat().st_size / 2**20:.1f} MiB; names from " +
              ", ".join(f"{pathlib.PurePath(library).name} {count}" for library, count in sorted(counts.items())))
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
