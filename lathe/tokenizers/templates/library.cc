#include "lathe/tokenizers/templates/library.h"

#include <algorithm>
#include <charconv>

#include "lathe/tokenizers/templates/machine.h"

namespace lathe::templates {

Bound::Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> parameters,
             size_t needed)
    : function_(function), names_(parameters), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > names_.size())
    fault("{}: found {} arguments, expected at most {}", function, arguments.positional.size(),
          names_.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), std::string_view(name));
    const auto i = static_cast<size_t>(found - names_.begin());
    if (found == names_.end() || values_[i] != nullptr)
      fault("{}: found the argument {}, which it does not have", function, name);
    values_[i] = &value;
  }
  for (size_t i = 0; i < needed; ++i)
    if (values_[i] == nullptr) fault("{}: the argument {} is missing", function, names_[i]);
}

int64_t Bound::integer(size_t i, int64_t absent) const {
  if (values_[i] == nullptr || is_none(*values_[i])) return absent;
  need_defined(*values_[i]);
  int64_t storage = 0;
  const int64_t* p = as_integer(*values_[i], &storage);
  if (p == nullptr)
    fault("{}: {}: found a {}, expected an integer", function_, names_[i], type_name(*values_[i]));
  return *p;
}

bool Bound::flag(size_t i, bool absent) const { return values_[i] == nullptr ? absent : truth(*values_[i]); }

std::string Bound::text(size_t i, std::string absent) const {
  if (values_[i] == nullptr || is_none(*values_[i])) return absent;
  need_defined(*values_[i]);
  const Text* t = as_text(*values_[i]);
  if (t == nullptr)
    fault("{}: {}: found a {}, expected a text", function_, names_[i], type_name(*values_[i]));
  return t->bytes;
}

const Text& need_text(const char* function, const Value& self) {
  need_defined(self);
  const Text* t = as_text(self);
  if (t == nullptr) fault("{}: found a {}, expected a text", function, type_name(self));
  return *t;
}

Value text_of(const Value& v, Meter& meter) {
  return as_text(v) != nullptr ? v : make_text(to_text(v, meter), meter);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value dotted_attribute(Machine& machine, const Value& value, const Value& path) {
  const Text* names = as_text(path);
  if (names == nullptr) return machine.item(value, path);
  Value out = value;
  for (size_t begin = 0; begin <= names->bytes.size();) {
    const size_t end = std::min(names->bytes.find('.', begin), names->bytes.size());
    const std::string name = names->bytes.substr(begin, end - begin);
    int64_t index = 0;
    const auto number = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = !name.empty() && name[0] != '-' && number.ec == std::errc() &&
                          number.ptr == name.data() + name.size();
    out = machine.item(out, is_index ? Value(index) : machine.text(name));
    begin = end + 1;
  }
  return out;
}

}  // namespace lathe::templates
