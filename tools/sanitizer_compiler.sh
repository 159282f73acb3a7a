#!/bin/sh
# sanitizer_compiler.sh: prints the clang++ for sanitized builds and fuzzing, the newest that is here with its runtime;
# nothing where there is none. Not before 17: clang 16 crashes on the cpu backend's bf16 kernels.
for candidate in clang++-19 clang++-18 clang++-17; do
  if command -v $candidate >/dev/null &&
      [ -e "$($candidate -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" -o \
        -e "$($candidate -print-runtime-dir 2>/dev/null)/libclang_rt.fuzzer.a" ]; then
    echo $candidate
    exit 0
  fi
done
