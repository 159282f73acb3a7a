#include <algorithm>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/io/torch/pickle.h"

namespace lathe {
namespace {

// A value counts as often as it is referred to: a few hundred bytes of references can stand for any number.
constexpr uint64_t kMaxWalk = 1'000'000;
constexpr uint64_t kMaxWalkBytes = uint64_t{64} << 20;  // of text
constexpr int kMaxDepth = 100;

std::vector<const PickleValue*> children_of(const PickleValue* value) {
  if (const auto* list = value->as<PickleValue::List>()) return list->items;
  if (const auto* tuple = value->as<PickleValue::Tuple>()) return tuple->items;
  std::vector<const PickleValue*> out;
  if (const auto* object = value->as<PickleValue::Object>()) {
    out.push_back(object->arguments);
    if (object->state != nullptr) out.push_back(object->state);
  }
  if (const auto* dict = value->as<PickleValue::Dict>())
    for (const auto& [key, item] : dict->items) out.insert(out.end(), {key, item});
  return out;
}

class Walk {
 public:
  explicit Walk(const std::string& file) : file_(file) {}

  struct Extent {
    int height = 0;
    uint64_t values = 1;
    uint64_t bytes = 0;  ///< of text
  };

  Extent measure(const PickleValue* value, int depth) {
    const auto known = extents_.find(value);
    const int height = known == extents_.end() ? 0 : known->second.height;
    if (depth + height > kMaxDepth)
      fail(ErrorCode::kInvalidData, "{}: data.pkl: values are nested deeper than {}, or contain themselves",
           file_, kMaxDepth);
    if (known != extents_.end()) return known->second;
    Extent out;
    if (const auto* text = value->as<std::string>()) out.bytes = text->size();
    for (const PickleValue* child : children_of(value)) {
      const Extent inner = measure(child, depth + 1);
      out.height = std::max(out.height, inner.height + 1);
      out.values += inner.values;
      out.bytes += inner.bytes;
      if (out.values > kMaxWalk || out.bytes > kMaxWalkBytes)
        fail(ErrorCode::kInvalidData,
             "{}: data.pkl: expected at most {} values and {} bytes of text, references counted; the file is "
             "damaged: fetch or save it again",
             file_, kMaxWalk, kMaxWalkBytes);
    }
    return extents_[value] = out;
  }

 private:
  const std::string& file_;
  std::unordered_map<const PickleValue*, Extent> extents_;
};

}  // namespace

void check_walkable(const PickleValue* root, const std::string& file) { (void)Walk(file).measure(root, 0); }

const PickleValue* PickleValue::Dict::find(std::string_view key) const {
  for (size_t i = items.size(); i-- > 0;) {
    const auto* text = items[i].first->as<std::string>();
    if (text != nullptr && *text == key) return items[i].second;
  }
  return nullptr;
}

const PickleValue* PickleValue::Dict::find(int64_t key) const {
  for (size_t i = items.size(); i-- > 0;) {
    const auto* number = items[i].first->as<int64_t>();
    if (number != nullptr && *number == key) return items[i].second;
  }
  return nullptr;
}

const char* PickleValue::kind() const {
  constexpr const char* kKinds[] = {"None",  "bool", "int",  "float",  "str",    "list",
                                    "tuple", "dict", "name", "tensor", "object", "tensor"};
  return kKinds[value.index()];
}

}  // namespace lathe
