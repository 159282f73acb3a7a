#include "lathe/nn/module.h"

#include "lathe/core/error.h"

namespace lathe::nn {

FlatLayout flat_layout(const std::vector<Parameter>& parameters) {
  FlatLayout layout;
  layout.offset.resize(parameters.size());
  const auto place = [&](bool trainable, bool decay, int64_t& end) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      if (p.trainable != trainable || (trainable && p.decay != decay)) continue;
      layout.offset[i] = end;
      end += elements(p.shape);
    }
  };
  place(true, true, layout.trainable);
  layout.decayed = layout.trainable;
  place(true, false, layout.trainable);
  place(false, false, layout.frozen);
  return layout;
}

int Module::find(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].name == name) return static_cast<int>(i);
  return -1;
}

void Module::set_trainable(const std::string& prefix, bool trainable) {
  for (Parameter& p : parameters_)
    if (p.name.rfind(prefix, 0) == 0) p.trainable = trainable;
}

int Module::add_parameter(Parameter parameter) {
  if (find(parameter.name) >= 0) fail(ErrorCode::kInternal, "parameter {} is declared twice", parameter.name);
  parameters_.push_back(std::move(parameter));
  return static_cast<int>(parameters_.size()) - 1;
}

const Trace& Module::trace() const {
  if (trace_ == nullptr) fail(ErrorCode::kInternal, "a layer was called outside of a trace");
  return *trace_;
}

}  // namespace lathe::nn
