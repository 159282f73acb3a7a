#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {

// What templates can call, by name; null if there is no such thing.  filters.cc, tests.cc, methods.cc and
// functions.cc have the tables.
Function find_filter(std::string_view name);
Function find_test(std::string_view name);
Function find_function(std::string_view name);
/// A method that self has.
Function find_method(const Value& self, std::string_view name);
/// Whether any value has a method of this name.
bool is_method(std::string_view name);
/// Whether Python's value has a method of this name that changes it.
bool changes_its_object(const Value& self, std::string_view name);

struct NamedFunction {
  std::string_view name;
  Function function;
};
template <size_t N>
Function find_in(const NamedFunction (&table)[N], std::string_view name) {
  for (const NamedFunction& f : table)
    if (f.name == name) return f.function;
  return nullptr;
}

/// Arguments by the names of their parameters; absent ones are null.
class Bound {
 public:
  /// Faults if there are more than the parameters, unknown ones, or fewer than `needed`.
  Bound(const char* function, const Arguments& arguments, std::initializer_list<const char*> parameters,
        size_t needed = 0);
  const Value* operator[](size_t i) const { return values_[i]; }
  /// The argument as an integer, truth or text; `absent` if it is not there (or none, for integers and
  /// texts).
  int64_t integer(size_t i, int64_t absent) const;
  bool flag(size_t i, bool absent) const;
  std::string text(size_t i, std::string absent) const;

 private:
  const char* function_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

/// self as a text; faults "upper: found a list, expected a text" if it is none.
const Text& need_text(const char* function, const Value& self);
/// A text as it is, other values as str() has them.
Value text_of(const Value& v, Meter& meter);
/// &, <, >, ' and " as entities.
std::string escaped(std::string_view text);
/// text % arguments, as Python formats.
std::string percent_format(std::string_view format, const Value& arguments, Meter& meter);
/// value["a"]["b"] for "a.b"; numbers in it are indices.  Source: the filters with `attribute`.
Value dotted_attribute(Machine& machine, const Value& value, const Value& path);
/// What strftime writes; faults, with its name, for a directive that is none of the usual ones.
std::string format_time(std::string_view format, const struct tm& time);

/// a op b for arithmetic and comparisons.
enum class Operator;
Value apply(Operator op, const Value& a, const Value& b, Meter& meter);
/// value[begin:end:step], each an integer or none.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Meter& meter);

}  // namespace lathe::templates
