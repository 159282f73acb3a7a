#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/io/tensor_source.h"
#include "lathe/io/tensor_view.h"

namespace lathe {

/// A value read from a pickle.  Pointers are into the tree that holds it and never form a cycle.
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
  struct Name {  ///< a name of the torch module that is its own value, such as "torch.float32"
    std::string name;
  };

  /// An instance of a Python class: what it was made of.  Nothing of the class was run.
  struct Object {
    std::string type;                    ///< "transformers.trainer_utils.IntervalStrategy"
    const PickleValue* arguments;        ///< a tuple
    const PickleValue* state = nullptr;  ///< its attributes, mostly a dict; null: none
  };

  /// A storage is a tensor of one dimension.  What was read holds views, what is to be written sources, too.
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Tuple, Dict, Name, TensorView,
               Object, const TensorSource*>
      value;

  /// Null if it holds something else.
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  /// "dict", "tensor", … for messages.
  const char* kind() const;
};

/// Owns the values and the copies of tensors that were not contiguous.
struct PickleTree {
  std::shared_ptr<std::deque<PickleValue>> values;
  std::shared_ptr<std::deque<std::vector<std::byte>>> copies;
  const PickleValue* root = nullptr;
};

/// Throws kInvalidData when values are nested too deep, contain themselves, or refer to each other so often
/// that a walk over the tree would take too long, or a copy of it too much memory.
void check_walkable(const PickleValue* root, const std::string& file);

/// The bytes of a storage, by its key; they must outlive the tree.
using StorageReader = std::function<std::span<const std::byte>(const std::string& key)>;

/// Reads a pickle of protocol 2 that torch.save wrote, without executing anything: the few names it knows are
/// rebuilt here.  objects: any other name is taken, too, and what it makes becomes an Object; nothing is run
/// for it either.  `file` is for messages.  Nesting, tensor rank and the memory used are bounded.
/// Throws kInvalidData when damaged, kUnsupported naming the GLOBAL or operation that it does not know.
/// Source: CPython Lib/pickletools.py for the operations; torch/_utils.py for the names.
PickleTree unpickle(std::span<const std::byte> bytes, const std::string& file, const StorageReader& storage,
                    bool objects = false);

}  // namespace lathe
