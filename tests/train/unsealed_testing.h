#pragma once
#include <string>

#include "lathe/io/safetensors.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {

/// For tests: makes of a checkpoint one as Lathe wrote it before there were digests.
inline void make_unsealed(const std::string& checkpoint) {
  const std::string path = join_path(checkpoint, kStateFile);
  auto metadata = SafetensorsFile::open(real_file_system(), path).metadata();
  metadata.erase("files");
  metadata.erase("sha256");
  metadata["format_version"] = "2";
  write_safetensors(real_file_system(), path, TensorMap(), metadata).check();
}

}  // namespace lathe
