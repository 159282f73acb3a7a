#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/io/tensor_source.h"
#include "lathe/io/tensor_view.h"

namespace lathe {

/// A safetensors file, mapped.  Format: u64 header length, JSON header, data.
/// Source: the format section of github.com/huggingface/safetensors and what its 0.8 reader accepts.
class SafetensorsFile {
 public:
  /// Throws kNotFound or kIo when the file cannot be read, kInvalidData unless: the header is at most 100 MB,
  /// inside the file, a JSON object without duplicate keys, `__metadata__` text to text; the tensors, by
  /// offset, cover the data without hole, overlap or rest; each has the bytes that its shape and dtype ask
  /// for.
  static SafetensorsFile open(FileSystem& fs, const std::string& path);
  /// The same for bytes that are already in memory; `path` is for messages.
  static SafetensorsFile parse(MappedFile file, const std::string& path);

  /// All tensors, sorted by name.
  const std::vector<std::string>& names() const { return names_; }
  /// Null if there is none of that name.  BOOL reads as u8.  Throws kUnsupported for a dtype that Lathe does
  /// not compute with (I8, I16, U16, U32, U64, C64, F8_*, F6_*, F4).
  const TensorView* find(std::string_view name) const;
  /// The tensor's bytes are not wanted soon (MappedFile::release).
  void release(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Entry {
    TensorView view;
    std::string dtype;
    bool readable = false;
  };

  std::string path_;
  MappedFile file_;
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Writes atomically the bytes that the Python package would: tensors by dtype (widest first), then name;
/// header padded with spaces to a multiple of 8.  Returns kShape if a view's bytes do not fit its shape,
/// kInvalidData if a name is not UTF-8 or is "__metadata__", and what a source returns.
Status write_safetensors(FileSystem& fs, const std::string& path, const TensorMap& tensors,
                         const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
Status write_safetensors(FileSystem& fs, const std::string& path, const TensorSources& tensors,
                         const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lathe
