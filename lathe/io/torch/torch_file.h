#pragma once
#include <string>
#include <utility>

#include "lathe/io/file_system.h"
#include "lathe/io/tensor_view.h"
#include "lathe/io/torch/pickle.h"

namespace lathe {

/// A file of `torch.save` (zip form, torch 1.6 and later), read without executing anything: dict, list,
/// tuple, numbers, text, tensors, OrderedDict, torch.Size, Parameter and dtype names; any other GLOBAL is an
/// error that names it, or with `objects` becomes a PickleValue::Object.  The CRC of every record that is
/// used is checked, unless `known`: whoever asks has checked the bytes by a digest.
class TorchFile {
 public:
  /// Throws kNotFound, kIo; kInvalidData when damaged; kUnsupported for the older forms, TorchScript,
  /// compressed zip entries, big-endian data, other Python objects.
  static TorchFile open(FileSystem& fs, const std::string& path, bool objects = false, bool known = false);
  /// The same for bytes that are already in memory; `path` is for messages.
  static TorchFile parse(MappedFile file, const std::string& path, bool objects = false, bool known = false);

  const PickleValue& root() const { return *tree_.root; }
  /// A tensor's bytes are not wanted soon (MappedFile::release).
  void release(const TensorView& tensor) const;

 private:
  MappedFile file_;
  PickleTree tree_;
};

/// Writes atomically a file that torch.load takes, also with weights_only=True; TorchFile reads it back with
/// the same values.  Each tensor gets its own storage, at a multiple of 64 bytes.
Status write_torch_file(FileSystem& fs, const std::string& path, const PickleValue& root);

/// Name → tensor of a state dict file (`pytorch_model.bin`).  A dict with an entry "state_dict" that is a
/// dict is looked into.  Throws as TorchFile::open, and kInvalidData naming an entry that is not a tensor.
class StateDict {
 public:
  static StateDict open(FileSystem& fs, const std::string& path);
  /// The views are valid while this object or a copy of it lives.
  const TensorMap& tensors() const { return tensors_; }
  /// As TorchFile::release.
  void release(const TensorView& tensor) const { file_.release(tensor); }

 private:
  explicit StateDict(TorchFile file) : file_(std::move(file)) {}
  TorchFile file_;
  TensorMap tensors_;
};

}  // namespace lathe
