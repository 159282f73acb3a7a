"""Texts of own Metal kernels, as MLX writes them (metal_simulator texts), as a library that runs them on a CPU."""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIMULATOR = pathlib.Path(os.environ.get("LATHE_BINARY_DIR", ROOT / "build/release")) / "metal_simulator"
CLANG = "clang++-19"
OPENCL = ["-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64", "-include", str(HERE / "metal_stdlib.h")]
HOST = ["-std=c++20", "-g1", f"-I{ROOT}", "-fPIC", "-Wno-unknown-attributes", "-Wno-psabi"]


def missing():
    """Why kernels cannot be simulated here; None if they can."""
    if not SIMULATOR.exists():
        return f"{SIMULATOR} is not built (make MLX=1 with tests)"
    return None if shutil.which(CLANG) else f"{CLANG} is not installed"


def run(command, cpu_seconds=None, **variables):
    """cpu_seconds: of the process at most; a clock would tell of the machine's other work, so it ends only what hangs."""
    def limit():
        if cpu_seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, preexec_fn=limit,
                          env={**os.environ, **variables}, timeout=60 * cpu_seconds if cpu_seconds else None)


def write_texts(folder):
    """Names of all kernels of all cases; their texts are folder/NAME.metal, less the attributes of the line with which MLX
    instantiates them: only Apple's clang takes them there."""
    folder.mkdir(parents=True, exist_ok=True)
    result = run([SIMULATOR, "texts", folder])
    if result.returncode != 0:
        raise RuntimeError(result.stdout + result.stderr)
    for file in folder.glob("*.metal"):
        file.write_text(re.sub(r"\ntemplate \[\[.*\]\] decltype", "\ntemplate decltype", file.read_text()))
    return sorted(file.stem for file in folder.glob("*.metal"))


def parse(text_file):
    """What clang's OpenCL front end says of a text; empty if it takes it."""
    command = [CLANG.replace("++", ""), *OPENCL, "-Wall", "-Wextra", "-Wno-unknown-attributes", "-Wno-unused", "-Werror",
               "-fsyntax-only", text_file]
    return run(command).stderr


def declaration(number, name, text):
    """C++ that includes the text in a namespace of its own and tells the simulator of its kernel."""
    instance = re.search(r"decltype\((.*)\) ", text)
    signature = text[text.index(f"void {name}("):]
    signature = signature[:signature.index(") {\n")]
    arguments = [f"lathe::metal::Argument{{a[{k}]}}" for k in range(signature.count("[[buffer("))]
    arguments += [f"place.{attribute}" for attribute in re.findall(r"\[\[(\w+)\]\]", signature)]
    return (f'namespace k{number} {{\n#include "{name}.metal"\n'
            f"static const lathe::metal::Declared declared(\"{name}\", [](void** a, const lathe::metal::Place& place) {{\n"
            f"  {instance[1] if instance else name}({', '.join(arguments)});\n}});\n}}\n")


def build(folder, names, library, sanitize=False):
    """Compiles folder/NAME.metal into a library. Returns what the compiler says; empty if it takes them."""
    unit = library.with_suffix(".cc")
    texts = [declaration(n, name, (folder / f"{name}.metal").read_text()) for n, name in enumerate(names)]
    unit.write_text('#include "tests/metal/msl.h"\n' + "".join(texts))
    runtime = folder / ("runtime_tsan.o" if sanitize else "runtime.o")
    if not runtime.exists():
        flags = ["-DLATHE_TSAN"] if sanitize else []
        result = run([CLANG, *HOST, "-O2", *flags, "-c", HERE / "simulator.cc", "-o", runtime])
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
    # a place beyond a local array ends the process, but for ThreadSanitizer, which is on its own
    sanitizer = ["-fsanitize=thread", "-shared-libsan"] if sanitize else ["-fsanitize=bounds", "-fsanitize-trap=bounds"]
    result = run([CLANG, *HOST, "-O0", *sanitizer, f"-I{folder}", "-shared", unit, runtime, "-o", library])
    return result.stderr if result.returncode != 0 else ""


def test(library, order=0, dtype="", op="", case="", sanitize=False, cpu_seconds=None):
    """Runs the cases of the ops by a library, those of a dtype, an op and a name. Returns (passed, what was printed)."""
    variables = {}
    if sanitize:
        variables["LD_PRELOAD"] = run([CLANG, "-print-file-name=libclang_rt.tsan-x86_64.so"]).stdout.strip()
        variables["TSAN_OPTIONS"] = f"exitcode=66 suppressions={HERE / 'tsan_suppressions.txt'}"
    try:
        result = run([SIMULATOR, "test", library, str(order), dtype, op, case], cpu_seconds, **variables)
    except subprocess.TimeoutExpired:
        return False, "it hangs"
    if result.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return False, f"no end after {cpu_seconds} s"
    return result.returncode == 0, result.stdout + result.stderr
