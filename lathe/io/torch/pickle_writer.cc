#include "lathe/io/torch/pickle_writer.h"

#include <algorithm>
#include <bit>

#include "lathe/core/error.h"

namespace lathe {
namespace {

std::string_view storage_class(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "FloatStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::f16:
      return "HalfStorage";
    case DType::f64:
      return "DoubleStorage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::u8:
      return "ByteStorage";
  }
  fail(ErrorCode::kInvalidData, "torch has no storage of {}", name_of(dtype));
}

class Pickler {
 public:
  explicit Pickler(std::vector<TensorSource>& storages) : storages_(storages) {}

  std::string run(const PickleValue& root) {
    out_ = "\x80\x02";
    write(root);
    return std::move(out_) + ".";
  }

 private:
  void write(const PickleValue& value) {
    std::visit([this](const auto& v) { put(v); }, value.value);
  }

  template <typename T>
  void bytes(T value) {  // little-endian
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }

  void put(std::monostate) { out_ += 'N'; }
  void put(bool value) { out_ += value ? '\x88' : '\x89'; }

  void put(int64_t value) {
    if (value >= 0 && value <= UINT8_MAX) {
      out_ += 'K', bytes(static_cast<uint8_t>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_ += 'J', bytes(static_cast<int32_t>(value));
    } else {
      out_ += "\x8a\x08", bytes(value);
    }
  }

  void put(double value) {
    out_ += 'G';
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }

  void put(const std::string& value) { text(value); }
  void text(std::string_view value) {
    out_ += 'X', bytes(static_cast<uint32_t>(value.size()));
    out_ += value;
  }

  void put(const PickleValue::List& list) {
    out_ += "](";
    for (const PickleValue* item : list.items) write(*item);
    out_ += 'e';
  }

  void put(const PickleValue::Tuple& tuple) {
    out_ += '(';
    for (const PickleValue* item : tuple.items) write(*item);
    out_ += 't';
  }

  void put(const PickleValue::Dict& dict) {
    out_ += "}(";
    for (const auto& [key, item] : dict.items) write(*key), write(*item);
    out_ += 'u';
  }

  void put(const PickleValue::Name& name) {
    const size_t dot = name.name.rfind('.');
    global(name.name.substr(0, dot), name.name.substr(dot + 1));
  }

  /// REDUCE, or NEWOBJ and BUILD.
  void put(const PickleValue::Object& object) {
    put(PickleValue::Name{object.type});
    write(*object.arguments);
    out_ += object.state == nullptr ? 'R' : '\x81';
    if (object.state == nullptr) return;
    write(*object.state);
    out_ += 'b';
  }

  void global(std::string_view module, std::string_view name) {
    out_ += 'c';
    (out_ += module) += '\n';
    (out_ += name) += '\n';
  }

  void sizes(const Shape& shape) {
    out_ += '(';
    for (const int64_t n : shape) put(n);
    out_ += 't';
  }

  /// _rebuild_tensor_v2(storage, offset 0, size, stride, requires_grad, backward hooks)
  void put(const TensorSource& tensor) {
    global("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    text("storage");
    global("torch", storage_class(tensor.dtype));
    text(std::to_string(storages_.size()));
    text("cpu");
    put(elements(tensor.shape));
    out_ += "tQ";
    put(int64_t{0});
    Shape strides(tensor.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<int64_t>(1, tensor.shape[i]);
    sizes(tensor.shape);
    sizes(strides);
    put(false);
    global("collections", "OrderedDict");
    out_ += ")RtR";
    storages_.push_back(tensor);
  }
  void put(const TensorView& tensor) { put(source_of(tensor)); }
  void put(const TensorSource* tensor) { put(*tensor); }

  std::vector<TensorSource>& storages_;
  std::string out_;
};

}  // namespace

PickleBuilder::Ref PickleBuilder::dict(const std::vector<std::pair<std::string, Ref>>& items) {
  PickleValue::Dict out;
  for (const auto& [key, value] : items) out.items.emplace_back(text(key), value);
  return add(std::move(out));
}

PickleBuilder::Ref PickleBuilder::dict(const std::vector<std::pair<int64_t, Ref>>& items) {
  PickleValue::Dict out;
  for (const auto& [key, value] : items) out.items.emplace_back(number(key), value);
  return add(std::move(out));
}

std::string pickle(const PickleValue& root, std::vector<TensorSource>& storages) {
  return Pickler(storages).run(root);
}

}  // namespace lathe
