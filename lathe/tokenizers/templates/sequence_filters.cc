#include "lathe/tokenizers/templates/sequence_filters.h"

#include <algorithm>
#include <optional>

#include "lathe/text/text.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"
#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {
namespace of_sequence_filters {
namespace {

Value lowered(Machine& m, const Value& v) {
  const Text* text = as_text(v);
  return text == nullptr ? v : m.text(to_lower(text->bytes));
}

bool less(Machine& m, const Value& a, const Value& b) {
  bool unordered = false;
  return compare(a, b, m.meter(), &unordered) < 0 && !unordered;
}

/// Sorts stably by keys.  std::sort needs an order that is one; NaN breaks it, and a fault leaves values in
/// between: a merge sort of our own has neither trouble.
void sort_by(Machine& m, std::vector<std::pair<Value, Value>>* items, bool reverse) {
  const size_t n = items->size();
  for (size_t width = 1; width < n; width *= 2) {
    m.meter().charge(n);
    std::vector<std::pair<Value, Value>> merged;
    merged.reserve(n);
    for (size_t begin = 0; begin < n; begin += 2 * width) {
      size_t a = begin, b = std::min(begin + width, n);
      const size_t a_end = b, b_end = std::min(b + width, n);
      while (a < a_end || b < b_end) {
        const auto second_first = [&] {
          const Value &left = (*items)[a].first, &right = (*items)[b].first;
          return reverse ? less(m, left, right) : less(m, right, left);
        };
        const bool second = a == a_end || (b < b_end && second_first());
        merged.push_back(std::move((*items)[second ? b++ : a++]));
      }
    }
    *items = std::move(merged);
  }
}

Value attribute_of(Machine& m, const Value& v, const Value* path) {
  return path == nullptr || is_none(*path) ? v : dotted_attribute(m, v, *path);
}

Value length(Machine&, const Value& self, const Arguments& arguments) {
  const Bound args("length", arguments, {});
  return length_of(self);
}

Value first(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("first", arguments, {});
  const Values items = iterate(self, m.meter());
  return items.empty() ? undefined("the first item of nothing") : items.front();
}

Value last(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("last", arguments, {});
  if (const List* list = as_list(self); list != nullptr && list->kind == List::Kind::kIterator)
    fault("last: found an iterator, expected a list; the filter `list` makes one");
  const Values items = iterate(self, m.meter());
  return items.empty() ? undefined("the last item of nothing") : items.back();
}

Value to_list(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("list", arguments, {});
  return m.list(iterate(self, m.meter()));
}

Value items(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("items", arguments, {});
  if (is_undefined(self)) return m.list({}, List::Kind::kIterator);
  const Dict* dict = as_dict(self);
  if (dict == nullptr) fault("items: found a {}, expected a dict", type_name(self));
  Values out;
  for (const auto& [key, value] : dict->items) out.push_back(m.list({key, value}, List::Kind::kTuple));
  return m.list(std::move(out), List::Kind::kIterator);
}

Value join(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("join", arguments, {"d", "attribute"});
  const std::string between = args[0] == nullptr ? "" : to_text(*args[0], m.meter());
  std::string out;
  bool begun = false;
  for (const Value& v : iterate(self, m.meter())) {
    if (begun) out += between;
    begun = true;
    m.meter().charge_text(between.size());
    out += to_text(attribute_of(m, v, args[1]), m.meter());
    m.meter().check_size(out.size());
  }
  return m.text(std::move(out));
}

Value reverse(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("reverse", arguments, {});
  if (as_text(self) != nullptr) return slice(self, None{}, None{}, int64_t{-1}, m.meter());
  Values out = iterate(self, m.meter());
  std::reverse(out.begin(), out.end());
  return m.list(std::move(out), List::Kind::kIterator);
}

Value sort(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Pairs keyed;
  for (Value& v : iterate(self, m.meter())) {
    Value key = v;
    const Text* path = args[2] == nullptr ? nullptr : as_text(*args[2]);
    if (path != nullptr && path->bytes.find(',') != std::string::npos) {
      Values several;
      for (const std::string& part : split_at_commas(path->bytes))
        several.push_back(dotted_attribute(m, v, m.text(part)));
      if (!args.flag(1, false))
        for (Value& k : several) k = lowered(m, k);
      key = m.list(std::move(several));
    } else {
      key = attribute_of(m, v, args[2]);
      if (!args.flag(1, false)) key = lowered(m, key);
    }
    keyed.emplace_back(std::move(key), std::move(v));
  }
  sort_by(m, &keyed, args.flag(0, false));
  Values out;
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return m.list(std::move(out));
}

Value dict_sort(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  need_defined(self);
  const Dict* dict = as_dict(self);
  if (dict == nullptr) fault("dictsort: found a {}, expected a dict", type_name(self));
  const std::string by = args.text(1, "key");
  if (by != "key" && by != "value") fault("dictsort: found by='{}', expected key or value", by);
  Pairs keyed;
  for (const auto& [name, value] : dict->items) {
    const Value& key = by == "key" ? name : value;
    keyed.emplace_back(args.flag(0, false) ? key : lowered(m, key),
                       m.list({name, value}, List::Kind::kTuple));
  }
  sort_by(m, &keyed, args.flag(2, false));
  Values out;
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return m.list(std::move(out));
}

Value unique(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("unique", arguments, {"case_sensitive", "attribute"});
  Values out, seen;
  for (const Value& v : iterate(self, m.meter())) {
    Value key = attribute_of(m, v, args[1]);
    if (!args.flag(0, false)) key = lowered(m, key);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key, m.meter()); }))
      continue;
    seen.push_back(std::move(key));
    out.push_back(v);
  }
  return m.list(std::move(out), List::Kind::kIterator);
}

template <bool largest>
Value extreme(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("min or max", arguments, {"case_sensitive", "attribute"});
  const Values all = iterate(self, m.meter());
  if (all.empty()) return undefined("the least or largest item of nothing");
  std::optional<Value> best_key;
  size_t best = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    Value key = attribute_of(m, all[i], args[1]);
    if (!args.flag(0, false)) key = lowered(m, key);
    if (best_key.has_value() && !(largest ? less(m, *best_key, key) : less(m, key, *best_key))) continue;
    best_key = std::move(key);
    best = i;
  }
  return all[best];
}

Value sum(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("sum", arguments, {"attribute", "start"});
  Value out = args[1] == nullptr ? Value(int64_t{0}) : *args[1];
  for (const Value& v : iterate(self, m.meter())) {
    if (as_text(out) != nullptr) fault("sum: found a text, expected numbers or lists; `join` joins texts");
    out = apply(Operator::kAdd, out, attribute_of(m, v, args[0]), m.meter());
  }
  return out;
}

/// What map, select and the like go through: nothing where self is false, whatever it is.
Values items_if_any(Machine& m, const Value& self) {
  return truth(self) ? iterate(self, m.meter()) : Values{};
}

/// Arguments after the first n.
Arguments rest_of(const Arguments& arguments, size_t n) {
  Arguments out = arguments;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<int64_t>(n));
  return out;
}

Value map(Machine& m, const Value& self, const Arguments& arguments) {
  Values out;
  if (arguments.positional.empty()) {
    const Bound args("map", arguments, {"attribute", "default"});
    if (args[0] == nullptr) fault("map: expected the name of a filter, or attribute=…");
    for (const Value& v : items_if_any(m, self)) {
      Value found = dotted_attribute(m, v, *args[0]);
      out.push_back(is_undefined(found) && args[1] != nullptr ? *args[1] : std::move(found));
    }
  } else {
    const std::string& name = need_text("map", arguments.positional[0]).bytes;
    const Function filter = find_filter(name);
    if (filter == nullptr)
      fault("map: the filter `{}` is outside of the part of Jinja that templates may use here", name);
    const Arguments rest = rest_of(arguments, 1);
    for (const Value& v : items_if_any(m, self)) {
      m.meter().charge();
      out.push_back(filter(m, v, rest));
    }
  }
  return m.list(std::move(out), List::Kind::kIterator);
}

/// select, reject (attributes: selectattr, rejectattr): items for which a test holds or not.
template <bool attributes, bool wanted>
Value chosen(Machine& m, const Value& self, const Arguments& arguments) {
  size_t used = 0;
  const Value* path = nullptr;
  if (attributes) {
    if (arguments.positional.empty()) fault("selectattr or rejectattr: expected the name of an attribute");
    path = &arguments.positional[used++];
  }
  Function test = nullptr;
  if (arguments.positional.size() > used) {
    const std::string& name = need_text("the name of a test", arguments.positional[used++]).bytes;
    test = find_test(name);
    if (test == nullptr)
      fault("the test `{}` is outside of the part of Jinja that templates may use here", name);
  }
  const Arguments rest = rest_of(arguments, used);
  Values out;
  for (Value& v : items_if_any(m, self)) {
    m.meter().charge();
    const Value subject = attribute_of(m, v, path);
    if (truth(test == nullptr ? subject : test(m, subject, rest)) == wanted) out.push_back(std::move(v));
  }
  return m.list(std::move(out), List::Kind::kIterator);
}

Value batch(Machine& m, const Value& self, const Arguments& arguments) {
  const Bound args("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = args.integer(0, 0);
  if (size < 1) fault("batch: found {} items, expected at least 1", size);
  Values out, row;
  const auto end_row = [&] { out.push_back(m.list(std::exchange(row, {}))); };
  for (Value& v : iterate(self, m.meter())) {
    row.push_back(std::move(v));
    if (std::ssize(row) == size) end_row();
  }
  if (row.empty()) return m.list(std::move(out), List::Kind::kIterator);
  const bool fills = args[1] != nullptr && !is_none(*args[1]);
  for (; fills && std::ssize(row) < size; row.push_back(*args[1])) m.meter().charge(2);
  end_row();
  return m.list(std::move(out), List::Kind::kIterator);
}

constexpr NamedFunction kSequenceFilters[] = {
    {"batch", batch},
    {"count", length},
    {"dictsort", dict_sort},
    {"first", first},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", chosen<false, false>},
    {"rejectattr", chosen<true, false>},
    {"reverse", reverse},
    {"select", chosen<false, true>},
    {"selectattr", chosen<true, true>},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace
}  // namespace of_sequence_filters

Function find_sequence_filter(std::string_view name) {
  return find_in(of_sequence_filters::kSequenceFilters, name);
}

}  // namespace lathe::templates
