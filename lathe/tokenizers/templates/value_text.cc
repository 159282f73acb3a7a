// Values as texts: str, repr and json.dumps of Python.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/text/python_format.h"
#include "lathe/text/python_text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {
namespace {

void append_all(const Values& items, std::string* out, Meter& meter) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) *out += ", ";
    append_repr(items[i], out, meter);
  }
}

void append_list(const List& list, std::string* out, Meter& meter) {
  if (list.kind == List::Kind::kIterator || list.kind == List::Kind::kRange)
    fault("{} is printed; the filter `list` makes a list of it, `join` a text",
          list.kind == List::Kind::kRange ? "a range" : "an iterator");
  const bool view = list.kind != List::Kind::kList && list.kind != List::Kind::kTuple;
  if (view)
    *out += fmt::format("dict_{}(", list.kind == List::Kind::kKeys     ? "keys"
                                    : list.kind == List::Kind::kValues ? "values"
                                                                       : "items");
  *out += list.kind == List::Kind::kTuple ? '(' : '[';
  append_all(list.items, out, meter);
  if (list.kind == List::Kind::kTuple && list.items.size() == 1) *out += ',';
  *out += list.kind == List::Kind::kTuple ? ')' : ']';
  if (view) *out += ')';
}

/// One writing of JSON; every piece is metered, for values may share parts of each other.
class JsonWriter {
 public:
  JsonWriter(const JsonForm& form, Meter& meter) : form_(form), meter_(meter) {}

  void append(const Value& v, int level) {
    meter_.charge();
    need_defined(v);
    if (const Text* text = as_text(v)) {
      meter_.charge_text(text->bytes.size());
      out_ += python_json_string(text->bytes, form_.ensure_ascii);
    } else if (const Dict* dict = as_dict(v)) {
      append_dict(*dict, level);
    } else if (const List* list = as_list(v)) {
      append_list(v, *list, level);
    } else if (is_number(v) || is_none(v)) {
      out_ += scalar(v);
    } else {
      wrong(v);
    }
    meter_.check_size(out_.size());
  }
  std::string take() { return std::move(out_); }

 private:
  [[noreturn]] static void wrong(const Value& v) {
    fault("tojson: found a {}, expected what JSON has", type_name(v));
  }

  static std::string scalar(const Value& v) {
    if (is_none(v)) return "null";
    if (const bool* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
    if (const int64_t* i = std::get_if<int64_t>(&v)) return std::to_string(*i);
    return python_float(std::get<double>(v));
  }

  void new_line(int level) {
    if (form_.indent < 0) return;
    meter_.check_size(form_.indent_text.size(), static_cast<size_t>(level));
    meter_.charge_text(form_.indent_text.size() * static_cast<size_t>(level));
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += form_.indent_text;
  }

  void append_list(const Value& v, const List& list, int level) {
    if (list.kind != List::Kind::kList && list.kind != List::Kind::kTuple) wrong(v);
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += form_.item_separator;
      new_line(level + 1);
      append(list.items[i], level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void append_dict(const Dict& dict, int level) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    Pairs sorted;
    if (form_.sort_keys) {
      sorted = dict.items;
      meter_.charge(4 * sorted.size());
      std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
        bool unordered = false;
        return compare(a.first, b.first, meter_, &unordered) < 0;
      });
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : form_.sort_keys ? sorted : dict.items) {
      if (!first) out_ += form_.item_separator;
      first = false;
      new_line(level + 1);
      if (!is_number(key) && !is_none(key) && as_text(key) == nullptr)
        fault("tojson: found a key that is a {}, expected a text or a number", type_name(key));
      const Text* text = as_text(key);
      meter_.charge_text(text == nullptr ? 0 : text->bytes.size());
      out_ += python_json_string(text == nullptr ? scalar(key) : text->bytes, form_.ensure_ascii);
      out_ += form_.key_separator;
      append(value, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  const JsonForm& form_;
  Meter& meter_;
  std::string out_;
};

}  // namespace

std::string to_text(const Value& v, Meter& meter) {
  if (is_undefined(v)) return {};
  if (const Text* text = as_text(v)) {
    meter.charge_text(text->bytes.size());
    return text->bytes;
  }
  std::string out;
  append_repr(v, &out, meter);
  return out;
}

void append_repr(const Value& v, std::string* out, Meter& meter) {
  meter.charge();
  meter.check_size(out->size());
  if (is_undefined(v)) {
    *out += "Undefined";
  } else if (is_none(v)) {
    *out += "None";
  } else if (const bool* b = std::get_if<bool>(&v)) {
    *out += *b ? "True" : "False";
  } else if (const int64_t* i = std::get_if<int64_t>(&v)) {
    *out += std::to_string(*i);
  } else if (const double* d = std::get_if<double>(&v)) {
    *out += python_repr(*d);
  } else if (const Text* text = as_text(v)) {
    meter.charge_text(text->bytes.size());
    const std::string quoted = python_quoted(text->bytes);
    *out += text->safe ? "Markup(" + quoted + ")" : quoted;
  } else if (const List* list = as_list(v)) {
    append_list(*list, out, meter);
  } else if (const Dict* dict = as_dict(v)) {
    *out += '{';
    for (size_t k = 0; k < dict->items.size(); ++k) {
      if (k > 0) *out += ", ";
      append_repr(dict->items[k].first, out, meter);
      *out += ": ";
      append_repr(dict->items[k].second, out, meter);
    }
    *out += '}';
  } else if (const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&v)) {
    *out += fmt::format("<LoopContext {}/{}>", (*loop)->index0 + 1, (*loop)->items->items.size());
  } else {
    fault("a {} is printed; expected a text, number, list or dict", type_name(v));
  }
}

std::string to_json(const Value& v, const JsonForm& form, Meter& meter) {
  JsonWriter writer(form, meter);
  writer.append(v, 0);
  return writer.take();
}

}  // namespace lathe::templates
