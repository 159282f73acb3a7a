#include "lathe/tokenizers/templates/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "lathe/text/unicode.h"

namespace lathe::templates {
namespace {

constexpr size_t kUnitsOfItem = 2, kUnitsOfText = 4, kBytesOfUnit = 16;

int depth_of(const Value& v) {
  if (const List* list = as_list(v)) return list->depth;
  if (const Dict* dict = as_dict(v)) return dict->depth;
  if (const auto* callable = std::get_if<std::shared_ptr<const Callable>>(&v))
    return depth_of((*callable)->self) + 1;
  if (const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&v)) return (*loop)->items->depth + 1;
  return 0;
}

void check_depth(int depth) {
  if (depth > kMostNested) fault("found lists and dicts more than {} deep", kMostNested);
}

template <typename T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_lists(const List& a, const List& b, Meter& meter, bool* unordered) {
  const size_t n = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < n; ++i) {
    if (!equal(a.items[i], b.items[i], meter)) return compare(a.items[i], b.items[i], meter, unordered);
  }
  return order(a.items.size(), b.items.size());
}

bool equal_dicts(const Dict& a, const Dict& b, Meter& meter) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key, meter);
    if (other == nullptr || !equal(value, *other, meter)) return false;
  }
  return true;
}

bool equal_lists(const List& a, const List& b, Meter& meter) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == List::Kind::kIterator || a.kind == List::Kind::kValues) return false;
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equal(a.items[i], b.items[i], meter)) return false;
  return true;
}

void check_key(const Value& key) {
  const List* list = as_list(key);
  const bool tuple = list != nullptr && list->kind == List::Kind::kTuple;
  if (as_dict(key) != nullptr || (list != nullptr && !tuple))
    fault("a key of a dict: found a {}, expected a value that does not change", type_name(key));
  if (tuple)
    for (const Value& item : list->items) check_key(item);
}

/// Both as numbers: exact where an integer has more bits than a double.
bool equal_numbers(const Value& a, const Value& b) {
  int64_t x = 0, y = 0;
  const int64_t *p = as_integer(a, &x), *q = as_integer(b, &y);
  if (p != nullptr && q != nullptr) return *p == *q;
  if (p == nullptr && q == nullptr) return std::get<double>(a) == std::get<double>(b);
  const double real = p == nullptr ? std::get<double>(a) : std::get<double>(b);
  const int64_t whole = p == nullptr ? *q : *p;
  return std::fabs(real) < 0x1p63 && std::trunc(real) == real && static_cast<int64_t>(real) == whole;
}

int compare_numbers(const Value& a, const Value& b, bool* unordered) {
  int64_t x = 0, y = 0;
  const int64_t *p = as_integer(a, &x), *q = as_integer(b, &y);
  if (p != nullptr && q != nullptr) return order(*p, *q);
  if (equal_numbers(a, b)) return 0;
  const double left = as_double(a), right = as_double(b);
  *unordered = std::isnan(left) || std::isnan(right);
  return order(left, right);
}

}  // namespace

void Meter::charge(size_t units) {
  if (units > static_cast<size_t>(left_))
    fault("the template does not end within {} steps; is there a loop that grows?", steps_);
  left_ -= static_cast<int64_t>(units);
}

void Meter::charge_text(size_t bytes) { charge(1 + bytes / kBytesOfUnit); }

void Meter::check_size(size_t bytes) const {
  if (bytes > text_bytes_) fault("the template makes a text of more than {} bytes", text_bytes_);
}

void Meter::check_size(size_t bytes, size_t times) const {
  if (times > 0 && bytes > text_bytes_ / times) check_size(text_bytes_ + 1);
}

const Value* Dict::find(const Value& key, Meter& meter) const {
  if (const Text* text = as_text(key)) return find(std::string_view(text->bytes), meter);
  check_key(key);
  meter.charge(1 + items.size());
  for (const auto& [k, v] : items)
    if (equal(k, key, meter)) return &v;
  return nullptr;
}

const Value* Dict::find(std::string_view key, Meter& meter) const {
  meter.charge(1 + items.size() / 8);
  for (const auto& [k, v] : items) {
    const Text* text = as_text(k);
    if (text != nullptr && text->bytes == key) return &v;
  }
  return nullptr;
}

Value make_text(std::string bytes, Meter& meter, bool safe) {
  meter.check_size(bytes.size());
  meter.charge(kUnitsOfText + bytes.size() / kBytesOfUnit);
  return std::make_shared<const Text>(Text{std::move(bytes), safe});
}

Value make_list(Values items, Meter& meter, List::Kind kind) {
  meter.charge(kUnitsOfText + kUnitsOfItem * items.size());
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  check_depth(depth + 1);
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->kind = kind;
  list->depth = depth + 1;
  return std::shared_ptr<const List>(std::move(list));
}

Value make_dict(Pairs items, Meter& meter) {
  meter.charge(kUnitsOfText + kUnitsOfItem * items.size());
  Dict dict;
  int depth = 0;
  for (auto& [key, value] : items) {
    check_key(key);
    depth = std::max(depth, std::max(depth_of(key), depth_of(value)));
    if (const Value* found = dict.find(key, meter)) {
      const_cast<Value&>(*found) = std::move(value);  // a member of dict, which is not const yet
    } else {
      dict.items.emplace_back(std::move(key), std::move(value));
    }
  }
  check_depth(depth + 1);
  dict.depth = depth + 1;
  return std::make_shared<const Dict>(std::move(dict));
}

Value undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }

Value from_json(const nlohmann::ordered_json& json, Meter& meter) {
  const auto text = [](const std::string& s) {
    return std::make_shared<const Text>(Text{unicode::is_valid(s) ? s : unicode::repair(s), false});
  };
  if (json.is_string()) return text(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    fault("the context has the integer {}; expected one of 64 bits with a sign", json.get<uint64_t>());
  if (json.is_number()) return json.get<int64_t>();
  if (!json.is_structured()) return None{};
  int depth = 0;
  const auto item = [&](const nlohmann::ordered_json& inner) {
    Value v = from_json(inner, meter);
    depth = std::max(depth, depth_of(v));
    check_depth(depth + 1);
    return v;
  };
  if (json.is_array()) {
    List list;
    for (const auto& inner : json) list.items.push_back(item(inner));
    list.depth = depth + 1;
    return std::make_shared<const List>(std::move(list));
  }
  Dict dict;
  for (auto it = json.begin(); it != json.end(); ++it) dict.items.emplace_back(text(it.key()), item(*it));
  dict.depth = depth + 1;
  return std::make_shared<const Dict>(std::move(dict));
}

const Text* as_text(const Value& v) {
  const auto* p = std::get_if<std::shared_ptr<const Text>>(&v);
  return p == nullptr ? nullptr : p->get();
}
const List* as_list(const Value& v) {
  const auto* p = std::get_if<std::shared_ptr<const List>>(&v);
  return p == nullptr ? nullptr : p->get();
}
const Dict* as_dict(const Value& v) {
  const auto* p = std::get_if<std::shared_ptr<const Dict>>(&v);
  return p == nullptr ? nullptr : p->get();
}

const int64_t* as_integer(const Value& v, int64_t* storage) {
  if (const bool* b = std::get_if<bool>(&v)) {
    *storage = *b ? 1 : 0;
    return storage;
  }
  return std::get_if<int64_t>(&v);
}

bool is_number(const Value& v) {
  return std::holds_alternative<bool>(v) || std::holds_alternative<int64_t>(v) ||
         std::holds_alternative<double>(v);
}

double as_double(const Value& v) {
  int64_t storage = 0;
  const int64_t* whole = as_integer(v, &storage);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(v);
}

bool is_undefined(const Value& v) { return std::holds_alternative<Undefined>(v); }
bool is_none(const Value& v) { return std::holds_alternative<None>(v); }

std::string type_name(const Value& v) {
  if (const List* list = as_list(v)) {
    constexpr const char* kNames[] = {"list",      "tuple",       "range",     "iterator",
                                      "dict_keys", "dict_values", "dict_items"};
    return kNames[static_cast<size_t>(list->kind)];
  }
  constexpr const char* kNames[] = {"Undefined", "NoneType", "bool",     "int",       "float",      "str",
                                    "list",      "dict",     "function", "Namespace", "LoopContext"};
  return kNames[v.index()];
}

bool truth(const Value& v) {
  if (is_undefined(v) || is_none(v)) return false;
  if (is_number(v)) return as_double(v) != 0;
  if (const Text* text = as_text(v)) return !text->bytes.empty();
  if (const List* list = as_list(v)) return list->kind == List::Kind::kIterator || !list->items.empty();
  if (const Dict* dict = as_dict(v)) return !dict->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  meter.charge();
  if (is_number(a) && is_number(b)) return equal_numbers(a, b);
  if (a.index() != b.index()) return false;
  if (const Text* text = as_text(a)) {
    const Text* other = as_text(b);
    if (text->bytes.size() != other->bytes.size()) return false;
    meter.charge_text(text->bytes.size());
    return text->bytes == other->bytes;
  }
  if (as_list(a) != nullptr) return equal_lists(*as_list(a), *as_list(b), meter);
  if (as_dict(a) != nullptr) return equal_dicts(*as_dict(a), *as_dict(b), meter);
  if (const auto* space = std::get_if<Namespace*>(&a)) return *space == std::get<Namespace*>(b);
  if (const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&a))
    return *loop == std::get<std::shared_ptr<const Loop>>(b);
  if (const auto* callable = std::get_if<std::shared_ptr<const Callable>>(&a))
    return *callable == std::get<std::shared_ptr<const Callable>>(b);
  return true;  // none, or both undefined
}

int compare(const Value& a, const Value& b, Meter& meter, bool* unordered) {
  meter.charge();
  *unordered = false;
  need_defined(a);
  need_defined(b);
  if (is_number(a) && is_number(b)) return compare_numbers(a, b, unordered);
  if (as_text(a) != nullptr && as_text(b) != nullptr) {
    const std::string &left = as_text(a)->bytes, &right = as_text(b)->bytes;
    meter.charge_text(std::min(left.size(), right.size()));
    return order(left, right);  // UTF-8 has the order of code points
  }
  const List *left = as_list(a), *right = as_list(b);
  const bool lists = left != nullptr && right != nullptr && left->kind == right->kind &&
                     (left->kind == List::Kind::kList || left->kind == List::Kind::kTuple);
  if (!lists) fault("a {} and a {} have no order", type_name(a), type_name(b));
  return compare_lists(*left, *right, meter, unordered);
}

bool contains(const Value& container, const Value& item, Meter& meter) {
  if (const Text* text = as_text(container)) {
    const Text* part = as_text(item);
    if (part == nullptr) fault("`in` a text: found a {}, expected a text", type_name(item));
    meter.charge_text(text->bytes.size());
    return find_text(text->bytes, part->bytes) != std::string::npos;
  }
  if (const Dict* dict = as_dict(container)) return dict->find(item, meter) != nullptr;
  const Values items = iterate(container, meter);
  return std::any_of(items.begin(), items.end(), [&](const Value& v) { return equal(v, item, meter); });
}

size_t find_text(std::string_view text, std::string_view what, size_t at) {
  if (at > text.size()) return std::string_view::npos;
  if (what.empty()) return at;
  const void* found = memmem(text.data() + at, text.size() - at, what.data(), what.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_text(std::string_view text, std::string_view what, Meter& meter) {
  constexpr size_t kShort = 16;  // longer ones may need a comparison at each place
  if (what.size() > kShort) meter.charge(text.size() / kBytesOfUnit * (what.size() / kBytesOfUnit));
  return text.rfind(what);
}

Values iterate(const Value& v, Meter& meter) {
  if (is_undefined(v)) return {};
  if (const List* list = as_list(v)) {
    meter.charge(1 + list->items.size());
    if (list->kind != List::Kind::kIterator) return list->items;
    if (list->used_up) return {};
    list->used_up = true;
    return list->items;
  }
  Values out;
  if (const Dict* dict = as_dict(v)) {
    meter.charge(1 + dict->items.size());
    for (const auto& [key, value] : dict->items) out.push_back(key);
    return out;
  }
  const Text* text = as_text(v);
  if (text == nullptr) fault("a {} has no items to go through", type_name(v));
  for (size_t at = 0; at < text->bytes.size();) {
    const size_t begin = at;
    unicode::decode(text->bytes, &at);
    out.push_back(make_text(text->bytes.substr(begin, at - begin), meter));
  }
  return out;
}

int64_t length_of(const Value& v) {
  if (is_undefined(v)) return 0;
  if (const Text* text = as_text(v)) return static_cast<int64_t>(unicode::length(text->bytes));
  if (const Dict* dict = as_dict(v)) return std::ssize(dict->items);
  if (const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&v))
    return std::ssize((*loop)->items->items);
  const List* list = as_list(v);
  if (list == nullptr || list->kind == List::Kind::kIterator)
    fault("a {} has no length{}", type_name(v),
          list == nullptr ? "" : "; the filter `list` makes a list of it");
  return std::ssize(list->items);
}

void need_defined(const Value& v) {
  if (const Undefined* u = std::get_if<Undefined>(&v))
    fault("{}", u->why == nullptr ? std::string("a value is undefined") : *u->why);
}

}  // namespace lathe::templates
