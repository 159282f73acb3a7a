#pragma once
#include <cstdint>
#include <string>

#include "lathe/io/file_system.h"

namespace lathe {

inline constexpr const char* kRngFile = "rng_state.pth";

/// Writes rng_state.pth, from which Hugging Face's Trainer sets the generators of Python, numpy, torch and
/// CUDA.  Lathe has none of them: they begin anew here, from a seed made of the run's and the step, so that
/// a run that goes on in Python is the same each time and does not repeat the dropout masks of its beginning.
/// Source: transformers 5.23 trainer.py, _load_rng_state; ATen's CPUGeneratorImpl.cpp and
/// CUDAGeneratorImpl.cpp for the bytes.
Status write_python_rng(FileSystem& fs, const std::string& folder, uint64_t seed, int64_t step);

}  // namespace lathe
