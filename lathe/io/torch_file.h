#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/io/tensor_view.h"

namespace lathe {

/// A value read from a pickle.  Pointers are into the file that holds it and never form a cycle.
struct PickleValue {
  struct List {
    std::vector<const PickleValue*> items;
  };
  struct Tuple {
    std::vector<const PickleValue*> items;
  };
  struct Dict {  ///< in the order of insertion; OrderedDict too
    std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
    /// The value under a text or integer key; null if there is none.
    const PickleValue* find(std::string_view key) const;
    const PickleValue* find(int64_t key) const;
  };
  struct Name {  ///< a dtype ("torch.float32"), by name
    std::string name;
  };

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Tuple, Dict, Name, TensorView> value;

  /// Null if it holds something else.
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  /// "dict", "tensor", … for messages.
  const char* kind() const;
};

/// A file of `torch.save` (zip form, torch 1.6 and later), read without executing anything: dict, list,
/// tuple, numbers, text, tensors, OrderedDict, torch.Size, Parameter and dtype names; any other GLOBAL is an
/// error that names it.  Every record's CRC is checked.
class TorchFile {
 public:
  /// Throws kNotFound, kIo; kInvalidData when damaged; kUnsupported for the older forms, TorchScript,
  /// compressed zip entries, big-endian data, other Python objects.
  static TorchFile open(FileSystem& fs, const std::string& path);
  static TorchFile parse(MappedFile file, const std::string& path);

  const PickleValue& root() const { return *root_; }

 private:
  MappedFile file_;
  std::shared_ptr<std::deque<PickleValue>> values_;
  std::shared_ptr<std::deque<std::vector<std::byte>>> copies_;  ///< of tensors that are not contiguous
  const PickleValue* root_ = nullptr;
};

/// Name → tensor of a state dict file (`pytorch_model.bin`).  A dict with the one entry "state_dict" or
/// "model" is looked into.  Throws as TorchFile::open, and kInvalidData naming an entry that is not a tensor.
class StateDict {
 public:
  static StateDict open(FileSystem& fs, const std::string& path);
  const TensorMap& tensors() const { return tensors_; }

 private:
  explicit StateDict(TorchFile file) : file_(std::move(file)) {}
  TorchFile file_;
  TensorMap tensors_;
};

}  // namespace lathe
