#include "lathe/io/torch/pickle.h"

#include <algorithm>
#include <type_traits>
#include <unordered_map>

#include "lathe/io/pickle_names.h"
#include "lathe/io/torch/pickle_bytes.h"
#include "lathe/io/torch/strided.h"

namespace lathe {
namespace {

// Bounds against hostile files; real ones stay far below: a model of 10,000 tensors has 200,000 values in
// 2 MiB.
constexpr size_t kMaxPickleBytes = size_t{32} << 20;
constexpr size_t kMaxValues = 2'000'000;
constexpr size_t kMaxMarks = 1000;
constexpr uint64_t kMaxHeldBytes = uint64_t{256} << 20;  // of texts, names, shapes and lists
constexpr size_t kMaxRank = 64;
// Tensors that share a storage (tied weights) are copied once each; without a bound a small file could ask
// for any amount of memory.
constexpr uint64_t kMaxCopies = 8;

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 100));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

/// Bytes that a value has elsewhere.
template <typename T>
uint64_t held_by(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) return value.size();
  if constexpr (std::is_same_v<T, PickleValue::Name>) return value.name.size();
  if constexpr (std::is_same_v<T, PickleValue::Object>) return value.type.size();
  if constexpr (std::is_same_v<T, PickleValue::Tuple>) return value.items.size() * sizeof(value.items[0]);
  if constexpr (std::is_same_v<T, TensorView>) return value.shape.size() * sizeof(value.shape[0]);
  return 0;
}

class Unpickler : private PickleBytes {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& file, const StorageReader& storage,
            bool objects)
      : PickleBytes(bytes, file), storage_(storage), objects_(objects) {
    tree_.values = std::make_shared<std::deque<PickleValue>>();
    tree_.copies = std::make_shared<std::deque<std::vector<std::byte>>>();
  }

  PickleTree run() {
    if (bytes_.size() > kMaxPickleBytes)
      fail(ErrorCode::kInvalidData,
           "{}: data.pkl: found {} bytes, expected at most {}: tensors lie outside of it; save "
           "model.state_dict() with torch.save, or as safetensors",
           file_, bytes_.size(), kMaxPickleBytes);
    while (step()) {
    }
    tree_.root = pop();
    check_walkable(tree_.root, file_);
    return std::move(tree_);
  }

 private:
  // Stack.

  template <typename T>
  void push(T value) {
    if (tree_.values->size() >= kMaxValues) damaged("more than {} values", kMaxValues);
    held_bytes_ += held_by(value);  // what is referred to by few bytes may be copied often
    if (held_bytes_ > kMaxHeldBytes) damaged("its values hold more than {} bytes", kMaxHeldBytes);
    tree_.values->push_back({std::move(value)});
    stack_.push_back(&tree_.values->back());
  }

  /// Where the topmost mark stands, 0 without one: values below are out of reach.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleValue* pop() {
    if (stack_.size() <= floor()) damaged("a value is missing on the stack");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickleValue* top() {
    if (stack_.size() <= floor()) damaged("a value is missing on the stack");
    return stack_.back();
  }

  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) damaged("a mark is missing on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  std::vector<const PickleValue*> pop_some(size_t n) {
    std::vector<const PickleValue*> items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    return items;
  }

  void append(const std::vector<const PickleValue*>& items) {
    auto* list = std::get_if<PickleValue::List>(&top()->value);
    if (list == nullptr) damaged("appends to a {}", top()->kind());
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<const PickleValue*>& items) {
    auto* dict = std::get_if<PickleValue::Dict>(&top()->value);
    if (dict == nullptr || items.size() % 2 != 0) damaged("sets items of a {}", top()->kind());
    for (size_t i = 0; i < items.size(); i += 2) dict->items.emplace_back(items[i], items[i + 1]);
  }

  void put(uint32_t slot) {
    memo_[slot] = top();
    if (memo_.size() > kMaxValues) damaged("more than {} values in the memo", kMaxValues);
  }

  void get(uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) damaged("memo {} is empty", slot);
    stack_.push_back(found->second);
    if (stack_.size() > kMaxValues) damaged("more than {} values on the stack", kMaxValues);
  }

  // Operations.  False after STOP.

  bool step() {
    const uint8_t op = take_number<uint8_t>();
    switch (op) {
      case '.':
        return false;
      case 0x80:  // PROTO
        check_protocol(take_number<uint8_t>());
        return true;
      case 'c':
        push_global();
        return true;
      case 'R':
        reduce();
        return true;
      case 'b':
        build();
        return true;
      case 0x81:  // NEWOBJ
        if (!objects_) unknown(op);
        make_object();
        return true;
      case 'Q':
        push_storage();
        return true;
      case '(':
        if (marks_.size() >= kMaxMarks) damaged("more than {} marks", kMaxMarks);
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      default:
        if (!push_scalar(op) && !make_container(op) && !use_memo(op)) unknown(op);
        return true;
    }
  }

  [[noreturn]] void unknown(uint8_t op) const {
    fail(ErrorCode::kUnsupported,
         "{}: data.pkl at byte {}: pickle operation 0x{:02x} is not one that a dict of tensors needs; save "
         "model.state_dict() with torch.save, or as safetensors",
         file_, position_ - 1, op);
  }

  bool push_scalar(uint8_t op) {
    switch (op) {
      case 'N':
        push(std::monostate());
        return true;
      case 0x88:
        push(true);
        return true;
      case 0x89:
        push(false);
        return true;
      case 'J':
        push(int64_t{take_number<int32_t>()});
        return true;
      case 'K':
        push(int64_t{take_number<uint8_t>()});
        return true;
      case 'M':
        push(int64_t{take_number<uint16_t>()});
        return true;
      case 0x8a:
        push(take_long(take_number<uint8_t>()));
        return true;
      case 'G':  // big-endian
        push(take_big_endian_double());
        return true;
      case 'X':
      case 'T':
        push(take_text(take_number<uint32_t>()));
        return true;
      case 'U':
        push(take_text(take_number<uint8_t>()));
        return true;
      default:
        return false;
    }
  }

  bool make_container(uint8_t op) {
    switch (op) {
      case '}':
        push(PickleValue::Dict{});
        return true;
      case ']':
        push(PickleValue::List{});
        return true;
      case ')':
        push(PickleValue::Tuple{});
        return true;
      case 't':
        push(PickleValue::Tuple{pop_to_mark()});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push(PickleValue::Tuple{pop_some(op - 0x84u)});
        return true;
      case 'a':
        append(pop_some(1));
        return true;
      case 'e':
        append(pop_to_mark());
        return true;
      case 's':
        set_items(pop_some(2));
        return true;
      case 'u':
        set_items(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(uint8_t op) {
    switch (op) {
      case 'q':
        put(take_number<uint8_t>());
        return true;
      case 'r':
        put(take_number<uint32_t>());
        return true;
      case 'h':
        get(take_number<uint8_t>());
        return true;
      case 'j':
        get(take_number<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  void check_protocol(uint8_t protocol) const {
    if (protocol != 2)
      fail(ErrorCode::kUnsupported,
           "{}: found pickle protocol {}, expected 2; save it with torch.save's default", file_, protocol);
  }

  void push_global() {
    const std::string module = take_line();
    const std::string name = module + "." + take_line();
    if (!is_known(name) && !objects_)
      fail(ErrorCode::kUnsupported,
           "{}: holds the Python object {}, which Lathe does not load: only tensors, numbers, text, lists "
           "and dicts; "
           "save model.state_dict() with torch.save, or as safetensors",
           file_, printable(name));
    push(PickleValue::Name{name});
  }

  const PickleValue::Tuple& arguments(const PickleValue* value, size_t at_least) const {
    const auto* tuple = value->as<PickleValue::Tuple>();
    if (tuple == nullptr || tuple->items.size() < at_least)
      damaged("found a {}, expected a tuple of at least {}", value->kind(), at_least);
    return *tuple;
  }

  void reduce() {
    const PickleValue* packed = pop();
    const PickleValue* callee = pop();
    const auto* name = callee->as<PickleValue::Name>();
    if (name == nullptr) damaged("calls a {}", callee->kind());
    if (name->name == kOrderedDict && arguments(packed, 0).items.empty()) {
      push(PickleValue::Dict{});
    } else if (name->name == kRebuildTensor) {
      push(rebuild_tensor(arguments(packed, 4).items));
    } else if (name->name == kRebuildParameter &&
               arguments(packed, 1).items[0]->as<TensorView>() != nullptr) {
      push(*arguments(packed, 1).items[0]->as<TensorView>());
    } else if (name->name == kSize) {
      const PickleValue* sizes = arguments(packed, 1).items[0];
      (void)dimensions(sizes);  // checked, and thereby short: a copy of it is cheap
      push(PickleValue::Tuple{arguments(sizes, 0)});
    } else if (objects_ && !is_known(name->name)) {
      (void)arguments(packed, 0);
      push(PickleValue::Object{name->name, packed});
    } else {
      damaged("calls {} with unknown arguments", name->name);
    }
  }

  void make_object() {
    const PickleValue* packed = pop();
    const PickleValue* type = pop();
    const auto* name = type->as<PickleValue::Name>();
    if (name == nullptr) damaged("makes an object of a {}", type->kind());
    (void)arguments(packed, 0);
    push(PickleValue::Object{name->name, packed});
  }

  /// Attributes of an OrderedDict, such as a state dict's `_metadata`: versions of modules, not needed here.
  void build() {
    const PickleValue* state = pop();
    if (auto* object = std::get_if<PickleValue::Object>(&top()->value)) {
      object->state = state;
      return;
    }
    if (top()->as<PickleValue::Dict>() == nullptr) damaged("sets attributes of a {}", top()->kind());
  }

  void push_storage() {
    const auto& items = arguments(pop(), 5).items;
    const auto* tag = items[0]->as<std::string>();
    const auto* name = items[1]->as<PickleValue::Name>();
    const auto* key = items[2]->as<std::string>();
    const auto* count = items[4]->as<int64_t>();
    const StorageClass* type = name == nullptr ? nullptr : find_storage_class(name->name);
    if (tag == nullptr || *tag != "storage" || type == nullptr || key == nullptr || count == nullptr ||
        *count < 0)
      damaged("a reference that is not to a storage");
    const std::span<const std::byte> bytes = storage_bytes(*key);
    const size_t element_bytes = size_of(type->dtype);
    if (static_cast<uint64_t>(*count) != bytes.size() / element_bytes || bytes.size() % element_bytes != 0)
      damaged("storage {}: found {} bytes, expected {} elements of {}", printable(*key), bytes.size(), *count,
              type->name);
    push(TensorView{type->dtype, {*count}, bytes});
  }

  std::span<const std::byte> storage_bytes(const std::string& key) {
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    const std::span<const std::byte> bytes = storage_(key);
    total_storage_bytes_ += bytes.size();
    return storages_[key] = bytes;
  }

  Shape dimensions(const PickleValue* value) const {
    const auto& items = arguments(value, 0).items;
    if (items.size() > kMaxRank)
      damaged("a tensor of {} dimensions, expected at most {}", items.size(), kMaxRank);
    Shape out;
    for (const PickleValue* item : items) {
      const auto* number = item->as<int64_t>();
      if (number == nullptr || *number < 0)
        damaged("found a {}, expected a size or stride from 0", item->kind());
      out.push_back(*number);
    }
    return out;
  }

  /// (storage, offset, size, stride, …)
  TensorView rebuild_tensor(const std::vector<const PickleValue*>& items) {
    const auto* storage = items[0]->as<TensorView>();
    const auto* offset = items[1]->as<int64_t>();
    if (storage == nullptr || storage->shape.size() != 1 || offset == nullptr || *offset < 0)
      damaged("a tensor without storage or offset");
    const StridedLayout layout{*offset, dimensions(items[2]), dimensions(items[3])};
    if (layout.size.size() != layout.stride.size())
      damaged("{} sizes and {} strides", layout.size.size(), layout.stride.size());
    if (!layout.fits(storage->shape[0]))
      damaged("a tensor of shape {} reaches beyond its storage of {} elements", to_string(layout.size),
              storage->shape[0]);
    if (layout.is_contiguous()) return layout.view(*storage);
    const int64_t count = elements(layout.size);
    copied_bytes_ += static_cast<uint64_t>(count) * size_of(storage->dtype);
    if (count > storage->shape[0] || copied_bytes_ > kMaxCopies * total_storage_bytes_)
      fail(ErrorCode::kUnsupported,
           "{}: a tensor of shape {} repeats elements of its storage of {}; save a copy of it: t.clone()",
           file_, to_string(layout.size), storage->shape[0]);
    tree_.copies->push_back(layout.gather(*storage));
    return {storage->dtype, layout.size, tree_.copies->back()};
  }

  const StorageReader& storage_;
  const bool objects_;
  PickleTree tree_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
  std::unordered_map<std::string, std::span<const std::byte>> storages_;
  uint64_t total_storage_bytes_ = 0;  ///< of all in storages_
  uint64_t copied_bytes_ = 0;
  uint64_t held_bytes_ = 0;  ///< held by the values in addition to their own size
};

}  // namespace

PickleTree unpickle(std::span<const std::byte> bytes, const std::string& file, const StorageReader& storage,
                    bool objects) {
  return Unpickler(bytes, file, storage, objects).run();
}

}  // namespace lathe
