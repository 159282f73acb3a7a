#!/usr/bin/env python3
"""Makes lathe/io/testdata with the real packages: needs torch and safetensors.

Element i of every tensor `ramp(n)` is i / 4 - 1, exact in all types used; the tests compute the same.
"""
import argparse
import pathlib
import zipfile

import safetensors.torch
import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "lathe" / "io" / "testdata"


def ramp(n, dtype=torch.float32):
    return (torch.arange(n, dtype=torch.float64) / 4 - 1).to(dtype)


def counting(n, dtype):
    return torch.arange(n).to(dtype)


def make_safetensors():
    tensors = {
        "b.f32": ramp(6).reshape(2, 3),
        "a.f32": ramp(4),
        "f16": ramp(5, torch.float16),
        "bf16": ramp(3, torch.bfloat16),
        "f64": ramp(2, torch.float64),
        "i64": counting(3, torch.int64),
        "i32": counting(3, torch.int32),
        "u8": counting(5, torch.uint8),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "quote\"\\/\n\u00e9": ramp(1),
    }
    safetensors.torch.save_file(tensors, FOLDER / "types.safetensors", metadata={"format": "pt"})
    others = {
        "bool": torch.tensor([True, False]),
        "i8": counting(2, torch.int8),
        "i16": counting(2, torch.int16),
        "u16": counting(2, torch.uint16),
        "u32": counting(2, torch.uint32),
        "u64": counting(2, torch.uint64),
        "c64": torch.ones(1, dtype=torch.complex64),
        "f8": torch.ones(2).to(torch.float8_e4m3fn),
        "f32": ramp(2),
    }
    safetensors.torch.save_file(others, FOLDER / "other_types.safetensors")


def make_torch():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(ramp(p.numel()).reshape(p.shape))
    torch.save(model.state_dict(), FOLDER / "module.bin")

    base = ramp(12).reshape(3, 4)
    values = {
        "transposed": base.t(),
        "column": base[:, 1],
        "rows": base[1:],
        "parameter": torch.nn.Parameter(ramp(2)),
        "f16": ramp(3, torch.float16),
        "bf16": ramp(3, torch.bfloat16),
        "f64": ramp(3, torch.float64),
        "i64": counting(3, torch.int64),
        "i32": counting(3, torch.int32),
        "u8": counting(3, torch.uint8),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
    }
    torch.save({"state_dict": values}, FOLDER / "views.bin")
    torch.save(values, FOLDER / "before_zip.bin", _use_new_zipfile_serialization=False)
    torch.save({"x": ramp(1)}, FOLDER / "protocol4.bin", pickle_protocol=4)
    torch.save({"a": torch.ones(1).expand(1000)}, FOLDER / "expanded.bin")
    torch.save({"args": argparse.Namespace(lr=1.0)}, FOLDER / "object.bin")
    torch.save({"x": ramp(1), "epoch": 3}, FOLDER / "not_only_tensors.bin")
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(FOLDER / "script.bin"))

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, weight_decay=0.25)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), FOLDER / "optimizer.pt")
    torch.save(
        {"none": None, "true": True, "numbers": [-1, 255, 256, 70000, -(2**40), 2**62], "real": 0.1,
         "size": torch.Size([2, 3]), "pair": (1, "two"), "dtype": torch.bfloat16, 7: "integer key"},
        FOLDER / "values.pt")

    with zipfile.ZipFile(FOLDER / "module.bin") as source, \
            zipfile.ZipFile(FOLDER / "compressed.bin", "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    make_safetensors()
    make_torch()
