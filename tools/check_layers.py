#!/usr/bin/env python3
"""Fails, with file:line, where an #include under lathe/ goes against the allowed direction, a folder is no layer or holds
more than 30 names, two types have one name, or a source of the tree has more than 450 lines.

    check_layers.py [ROOT]

The direction is the table of lathe_layer(... SEES ...) lines in CMakeLists.txt and nothing else; what a layer sees, it
sees with all that lies below. Every folder of lathe/ and lathe/backends/ stands in it, but for those of transports, which
no layer links (NAME_transport.cc). Three more rules: a device's folder lathe/backends/X is seen only by
lathe/backends; headers of device libraries appear only below lathe/backends; and the first statement of each CUDA
kernel is `follow();`, on which lathe/backends/cuda/graph.h relies, or a call of a function `…_that_follows`, which says it
later, after code that touches nothing that kernels write.

JSON is parsed only by the functions of lathe/io/json_file.h, which bound its depth, but in tests; and no source includes
<regex>, whose matcher recurses for each character.

Two types of one name in one namespace break C++'s rule of one definition though nothing includes both: a linker keeps one
of their destructors. Types in unnamed namespaces may share a name.
"""
import pathlib
import re
import sys

LAYER = re.compile(r"^lathe_layer\(\s*(\w+)\s+FOLDER\s+(\S+?)(?:\s+SEES\s+([\w ]+?))?\s*\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DEVICE_LIBRARY = re.compile(r"^(cuda|cublas|cudnn|curand|cusparse|cutensor|cutlass/|nccl|nvToolsExt|nvtx|hip/|mlx/|mpi\.h|gloo/|"
                            r"Metal/|MetalPerformance|Accelerate/|dnnl|oneapi/)")
MOST_LINES = 450
OF_A_TREE = ("lathe", "python", "tests", "tools", "bench", "examples")
MOST_NAMES = 30   # of a folder: header, source, test and fuzz target are one
OF_ONE_NAME = re.compile(r"(_test|_fuzz|_testing|_bench)?\.[a-z]+$")
KERNEL = re.compile(r"__global__\b[^;{]*\{\s*(follow\(\);|\w+_that_follows\b)?")
RAW_JSON = re.compile(r"\b\w*[Jj]son::(?:parse|accept|sax_parse|from_\w+)\b")
PARSERS = {"lathe/io/json_file.cc", "lathe/io/keys_once.h", "lathe/io/keys_once.cc"}
OF_TESTS = re.compile(r"_(?:test|testing|fuzz)\.|/test_\w+\.h$")
NAMESPACE = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{")
TYPE = re.compile(r"^(?:struct|class|enum class|enum struct|enum|union)\s+(?:alignas\([^)]*\)\s+)?([\w:]+(?:<.*?>)?)[^;]*(?:\{|$)")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".mm", ".inc"}


def read_layers(cmake_text):
    """Folder of each layer, and the folders each layer may include from: its own and all below."""
    rows = {name: (folder, (sees or "").split()) for name, folder, sees in LAYER.findall(cmake_text)}

    def below(name):
        seen = {name}
        for other in rows[name][1]:
            if other not in rows:
                raise SystemExit(f"CMakeLists.txt: layer {name} sees {other}, which is not a layer")
            seen |= below(other)
        return seen

    return {folder: {rows[n][0] for n in below(name)} for name, (folder, _) in rows.items()}


def layer_of(path, layers):
    """The innermost layer folder that holds path; None for a file that stands in no layer."""
    holding = [folder for folder in layers if path.startswith(folder + "/")]
    return max(holding, key=len, default=None)


def wrong_include(path, bracket, included, layers):
    """What is wrong with this include, or None."""
    below_backends = path.startswith("lathe/backends/")
    if not below_backends and DEVICE_LIBRARY.match(included):
        return f"{included} belongs to a device library; only lathe/backends/* may include it"
    if not included.startswith("lathe/"):
        return f'write "{included}" from the root or in <>' if bracket == '"' else None
    source, target = layer_of(path, layers), layer_of(included, layers)
    if source is None:
        return None
    if target is None:
        return f"{included} stands in no layer of CMakeLists.txt"
    if target not in layers[source]:
        return f"{source} does not see {target}"
    if target.startswith("lathe/backends/") and not below_backends:
        return f"{target} is seen only by lathe/backends"
    return None


def folders_of_no_layer(root, layers):
    """Folders whose sources no layer compiles."""
    found = []
    for folder in sorted([*(root / "lathe").glob("*"), *(root / "lathe" / "backends").glob("*")]):
        path = folder.relative_to(root).as_posix()
        if folder.is_dir() and path not in layers and not any(folder.glob("*_transport.cc")):
            if any(file.suffix in SUFFIXES for file in folder.iterdir()):
                found.append(path)
    return found


def crowded_folders(root):
    """Folders with more names of their own than a newcomer keeps in mind."""
    names = {}
    for file in (root / "lathe").rglob("*"):
        if file.suffix in SUFFIXES:
            names.setdefault(file.parent.relative_to(root).as_posix(), set()).add(OF_ONE_NAME.sub("", file.name))
    return [f"{folder}: {len(found)} names, at most {MOST_NAMES}; give what belongs together a folder inside"
            for folder, found in sorted(names.items()) if len(found) > MOST_NAMES]


def long_sources(root):
    """Sources with more lines than one job takes; tables that a script has made are .inc."""
    found = []
    for file in sorted(file for folder in OF_A_TREE for file in (root / folder).rglob("*")):
        if file.suffix not in (SUFFIXES - {".inc"}) | {".metal", ".py", ".sh"} or not file.is_file():
            continue
        path, lines = file.relative_to(root).as_posix(), file.read_bytes().count(b"\n")
        if lines > MOST_LINES:
            found.append(f"{path}: {lines} lines, at most {MOST_LINES}; give each of its jobs a file")
    return found


def kernels_that_do_not_follow(text):
    """Line numbers."""
    return [text.count("\n", 0, kernel.start()) + 1 for kernel in KERNEL.finditer(text) if not kernel[1]]


def raw_parsers(path, text):
    """(Line number, what is wrong) of each use of a parser that an input can crash."""
    if path in PARSERS or OF_TESTS.search(path):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if RAW_JSON.search(line.split("//")[0]):
            yield number, "JSON is parsed by lathe/io/json_file.h"
        if re.match(r"\s*#\s*include\s*<regex>", line):
            yield number, "<regex> recurses for each character of what it matches"


def types_of(text):
    """(Line number, qualified name) of each type that is defined only in namespaces with names."""
    spaces, found = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if space := NAMESPACE.match(line):
            spaces.append(space[1])
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif (a_type := TYPE.match(line)) and all(spaces):
            found.append((number, "::".join([*spaces, a_type[1]])))
    return found


def check(root):
    """All violations under root/lathe, as file:line: text."""
    layers = read_layers((root / "CMakeLists.txt").read_text(encoding="utf-8"))
    if not layers:
        raise SystemExit("CMakeLists.txt: no lathe_layer line found")
    found = [f"{folder}: is no layer; a line lathe_layer(...) in CMakeLists.txt makes it one"
             for folder in folders_of_no_layer(root, layers)]
    found += crowded_folders(root) + long_sources(root)
    types = {}
    for file in sorted((root / "lathe").rglob("*")):
        if file.suffix not in SUFFIXES:
            continue
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        found += [f"{path}:{line}: a kernel begins with follow();" for line in kernels_that_do_not_follow(text)]
        found += [f"{path}:{line}: {wrong}" for line, wrong in raw_parsers(path, text)]
        for number, name in types_of(text):
            if (first := types.setdefault(name, f"{path}:{number}")) != f"{path}:{number}":
                found.append(f"{path}:{number}: {name} is defined at {first}, too")
        for number, line in enumerate(text.splitlines(), 1):
            include = INCLUDE.match(line)
            if include and (wrong := wrong_include(path, include[1], include[2], layers)):
                found.append(f"{path}:{number}: {wrong}")
    return found


def main():
    found = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent))
    print("\n".join(found) if found else "layers: every #include goes the allowed way, every type has a name of its own, no source is too long")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
