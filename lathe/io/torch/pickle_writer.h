#pragma once
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "lathe/io/torch/pickle.h"

namespace lathe {

/// Makes values to be pickled, and owns them.  It does not own tensors' bytes.
class PickleBuilder {
 public:
  using Ref = const PickleValue*;

  Ref none() { return add(std::monostate()); }
  Ref boolean(bool value) { return add(value); }
  Ref number(int64_t value) { return add(value); }
  Ref real(double value) { return add(value); }
  Ref text(std::string value) { return add(std::move(value)); }
  Ref tensor(const TensorView& value) { return add(value); }
  Ref tensor(TensorSource value) {
    sources_.push_back(std::move(value));
    return add<const TensorSource*>(&sources_.back());
  }
  /// Called with `arguments`, a tuple; or, with attributes, made without a call and given them.
  Ref object(std::string type, Ref arguments, Ref attributes = nullptr) {
    return add(PickleValue::Object{std::move(type), arguments, attributes});
  }
  Ref list(std::vector<Ref> items) { return add(PickleValue::List{std::move(items)}); }
  Ref tuple(std::vector<Ref> items) { return add(PickleValue::Tuple{std::move(items)}); }
  Ref dict(const std::vector<std::pair<std::string, Ref>>& items);
  Ref dict(const std::vector<std::pair<int64_t, Ref>>& items);

 private:
  template <typename T>
  Ref add(T value) {
    values_.push_back({std::move(value)});
    return &values_.back();
  }

  std::deque<PickleValue> values_;  // addresses stay
  std::deque<TensorSource> sources_;
};

/// A value as a pickle of protocol 2 that torch.load takes, also with weights_only=True.  `storages` gets the
/// tensors in the order in which they come: the one at [k] is the storage with key k.  Errors: kInvalidData
/// for an element type that torch lacks.
/// Source: CPython Lib/pickletools.py; torch/serialization.py, _save.
std::string pickle(const PickleValue& root, std::vector<TensorSource>& storages);

}  // namespace lathe
