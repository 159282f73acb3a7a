#include "lathe/io/torch/pickle_json.h"

#include <nlohmann/json.hpp>

namespace lathe {

using nlohmann::json;

json json_of(const PickleValue& value) {
  if (const auto* x = value.as<bool>()) return *x;
  if (const auto* x = value.as<int64_t>()) return *x;
  if (const auto* x = value.as<double>()) return *x;
  if (const auto* x = value.as<std::string>()) return *x;
  if (const auto* x = value.as<PickleValue::Name>()) return x->name;
  json out;
  const auto add = [&out](const std::vector<const PickleValue*>& items) {
    out = json::array();
    for (const PickleValue* item : items) out.push_back(json_of(*item));
  };
  if (const auto* list = value.as<PickleValue::List>()) add(list->items);
  if (const auto* tuple = value.as<PickleValue::Tuple>()) add(tuple->items);
  if (const auto* dict = value.as<PickleValue::Dict>()) {
    out = json::object();
    for (const auto& [key, item] : dict->items)
      if (const auto* name = key->as<std::string>()) out[*name] = json_of(*item);
  }
  if (const auto* object = value.as<PickleValue::Object>()) {
    if (object->state != nullptr) return json_of(*object->state);
    const auto& arguments = object->arguments->as<PickleValue::Tuple>()->items;
    if (arguments.size() == 1) return json_of(*arguments[0]);  // an enumeration's value
  }
  return out;
}

PickleBuilder::Ref pickle_of(PickleBuilder& make, const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return make.boolean(value.get<bool>());
  if (value.is_number_integer()) return make.number(value.get<int64_t>());
  if (value.is_number()) return make.real(value.get<double>());
  if (value.is_string()) return make.text(value.get<std::string>());
  if (value.is_array()) {
    std::vector<PickleBuilder::Ref> items;
    for (const auto& item : value) items.push_back(pickle_of(make, item));
    return make.list(std::move(items));
  }
  if (!value.is_object()) return make.none();
  std::vector<std::pair<std::string, PickleBuilder::Ref>> items;
  for (const auto& [key, item] : value.items()) items.emplace_back(key, pickle_of(make, item));
  return make.dict(items);
}

}  // namespace lathe
