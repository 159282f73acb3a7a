// Methods of dicts, lists and loops, and which names are methods.  text_methods.cc has those of texts.
#include <algorithm>
#include <array>

#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"
#include "lathe/tokenizers/templates/text_methods.h"

namespace lathe::templates {
namespace of_methods {
namespace {

Value dict_get(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("get", arguments, {"key", "default"}, 1);
  if (const Value* found = as_dict(self)->find(*args[0], m.meter())) return *found;
  return args[1] != nullptr ? *args[1] : Value(None{});
}

template <List::Kind kind>
Value dict_view(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("keys, values or items", arguments, {});
  Values out;
  for (const auto& [key, value] : as_dict(self)->items) {
    out.push_back(kind == List::Kind::kKeys     ? key
                  : kind == List::Kind::kValues ? value
                                                : m.list({key, value}, List::Kind::kTuple));
  }
  return m.list(std::move(out), kind);
}

/// Nothing changes, so that an object is its own copy.
Value copy(Machine&, const Value& self, const Arguments& arguments) {
  const Bound args("copy", arguments, {});
  return self;
}

Value list_count(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("count", arguments, {"value"}, 1);
  int64_t out = 0;
  for (const Value& v : as_list(self)->items) out += equal(v, *args[0], m.meter()) ? 1 : 0;
  return out;
}

Value list_index(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("index", arguments, {"value"}, 1);
  const Values& items = as_list(self)->items;
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], *args[0], m.meter())) return static_cast<int64_t>(i);
  fault("index: the value is not in the list");
}

Value loop_cycle(Machine&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fault("loop.cycle: expected values");
  const auto& loop = *std::get<std::shared_ptr<const Loop>>(self);
  return arguments.positional[loop.index0 % arguments.positional.size()];
}

constexpr NamedFunction kDictMethods[] = {{"get", dict_get},
                                          {"keys", dict_view<List::Kind::kKeys>},
                                          {"values", dict_view<List::Kind::kValues>},
                                          {"items", dict_view<List::Kind::kItems>},
                                          {"copy", copy}};
constexpr NamedFunction kListMethods[] = {{"count", list_count}, {"index", list_index}, {"copy", copy}};
constexpr NamedFunction kLoopMethods[] = {{"cycle", loop_cycle}};
constexpr std::array<std::string_view, 5> kChangeDicts = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> kChangeLists = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};

template <size_t N>
bool is_in(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace
}  // namespace of_methods

Function find_method(const Value& self, std::string_view name) {
  if (as_text(self) != nullptr) return find_text_method(name);
  if (as_dict(self) != nullptr) return find_in(of_methods::kDictMethods, name);
  if (std::holds_alternative<std::shared_ptr<const Loop>>(self))
    return find_in(of_methods::kLoopMethods, name);
  const List* list = as_list(self);
  if (list == nullptr || list->kind > List::Kind::kRange) return nullptr;
  const bool copies = list->kind == List::Kind::kList || name != "copy";
  return copies ? find_in(of_methods::kListMethods, name) : nullptr;
}

bool is_method(std::string_view name) {
  return find_text_method(name) != nullptr || find_in(of_methods::kDictMethods, name) != nullptr ||
         find_in(of_methods::kListMethods, name) != nullptr ||
         find_in(of_methods::kLoopMethods, name) != nullptr ||
         of_methods::is_in(of_methods::kChangeDicts, name) ||
         of_methods::is_in(of_methods::kChangeLists, name);
}

bool changes_its_object(const Value& self, std::string_view name) {
  if (as_dict(self) != nullptr) return of_methods::is_in(of_methods::kChangeDicts, name);
  return as_list(self) != nullptr && as_list(self)->kind == List::Kind::kList &&
         of_methods::is_in(of_methods::kChangeLists, name);
}

}  // namespace lathe::templates
