#!/usr/bin/env python3
"""make_wheel.py BUILD DIST: the wheel of a build's Python package and its program, for the Python that built it.

The format is that of https://packaging.python.org/en/latest/specifications/binary-distribution-format/. The program goes
into the folder of scripts, so that it starts without Python; the part that reads Parquet into lib/lathe, where the program
looks. It is linked with Apache Arrow of the wheel pyarrow, of which the wheel asks for the same version. Other parts (Gloo,
MLX) stand on libraries of the machine and are left out."""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
METADATA = """Metadata-Version: 2.1
Name: lathe
Version: {version}
Summary: native fine-tuning of transformers
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy>=1.26
{more}Description-Content-Type: text/markdown

{readme}"""


def stripped(path):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / path.name
        options = ["-x"] if sys.platform == "darwin" else ["--strip-unneeded"]
        subprocess.run(["strip", *options, "-o", str(out), str(path)], check=True)
        return out.read_bytes()


def platform_tag(files):
    """manylinux by the newest symbol of glibc that a file needs (PEP 600); macOS and others as Python says."""
    machine = platform.machine()
    if sys.platform != "linux":
        return re.sub(r"[.-]", "_", sysconfig.get_platform())
    wanted = set()
    for file in files:
        symbols = subprocess.run(["objdump", "-T", str(file)], check=True, capture_output=True, text=True).stdout
        wanted |= {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    major, minor = max(wanted)
    return f"manylinux_{major}_{minor}_{machine}"


def pyarrow_of(part):
    """The version of pyarrow that a part needs: Arrow 26.0 is libarrow.so.2600 or libarrow.2600.dylib."""
    tool = ["otool", "-L"] if sys.platform == "darwin" else ["objdump", "-p"]
    needed = subprocess.run([*tool, str(part)], check=True, capture_output=True, text=True).stdout
    number = int(re.search(r"libarrow\.(?:so\.)?(\d+)", needed)[1])
    return f"{number // 100}.{number % 100}"


def write_wheel(path, entries):
    """entries: name → (bytes, mode); RECORD is added.  The same bytes for the same entries."""
    record = ""
    info = next(name for name in entries if name.endswith("/METADATA")).rsplit("/", 1)[0]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, (content, mode) in sorted(entries.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            add(wheel, name, content, mode)
        add(wheel, f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644)


def add(wheel, name, content, mode):
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)


def main(build, dist):
    module = build / "python" / "lathe" / f"_lathe{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.is_file():
        sys.exit(f"make_wheel.py: {module} is not there: the build found no nanobind for {sys.executable}, or was made for "
                 "another Python; make wheel builds it")
    program = build / "lathe"
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    python = module.name.split("-")[1]  # _lathe.cpython-311-….so
    parts = sorted((build / "python" / "lib").glob("liblathe_parquet.*"))
    tag = f"cp{python}-cp{python}-{platform_tag([module, program, *parts])}"
    info = f"lathe-{version}.dist-info"
    python = ROOT / "python"
    entries = {file.relative_to(python).as_posix(): (file.read_bytes(), 0o644) for file in (python / "lathe").rglob("*.py")}
    entries[f"lathe/{module.name}"] = (stripped(module), 0o755)
    entries[f"lathe-{version}.data/scripts/lathe"] = (stripped(program), 0o755)
    for part in parts:
        entries[f"lathe-{version}.data/data/lib/lathe/{part.name}"] = (stripped(part), 0o755)
    more = "".join(f"Requires-Dist: pyarrow=={pyarrow_of(part)}.*\n" for part in parts)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    entries[f"{info}/METADATA"] = (METADATA.format(version=version, more=more, readme=readme).encode(), 0o644)
    entries[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: lathe\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
    entries[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.glob("lathe-*.whl"):
        old.unlink()
    wheel = dist / f"lathe-{version}-{tag}.whl"
    write_wheel(wheel, entries)
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB){'' if parts else ', without the part that reads Parquet'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]))
