// What can stand after `is`.
#include "lathe/text/python_text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"
#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {
namespace of_tests {
namespace {

const Value& only_argument(const char* test, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    fault("test {}: expected one argument", test);
  return arguments.positional[0];
}

template <Operator op>
Value compared(Machine& m, const Value& self, const Arguments& arguments) {
  return apply(op, self, only_argument("of a comparison", arguments), m.meter());
}

template <bool (*holds)(const Value&)>
Value simple(Machine&, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty())
    fault("a test that has no arguments is given some");
  return holds(self);
}

bool is_defined(const Value& v) { return !is_undefined(v); }
bool is_string(const Value& v) { return as_text(v) != nullptr; }
bool is_mapping(const Value& v) { return as_dict(v) != nullptr; }
bool is_boolean(const Value& v) { return std::holds_alternative<bool>(v); }
bool is_whole(const Value& v) { return std::holds_alternative<int64_t>(v); }
bool is_real(const Value& v) { return std::holds_alternative<double>(v); }
bool is_true(const Value& v) { return is_boolean(v) && std::get<bool>(v); }
bool is_false(const Value& v) { return is_boolean(v) && !std::get<bool>(v); }
bool is_loop(const Value& v) { return std::holds_alternative<std::shared_ptr<const Loop>>(v); }

bool is_iterable(const Value& v) {
  return is_undefined(v) || is_string(v) || is_mapping(v) || as_list(v) != nullptr || is_loop(v);
}

bool is_sequence_value(const Value& v) {
  const List* list = as_list(v);
  return is_undefined(v) || is_string(v) || is_mapping(v) ||
         (list != nullptr && list->kind <= List::Kind::kRange);
}

bool is_callable(const Value& v) {
  return is_undefined(v) || is_loop(v) || std::holds_alternative<std::shared_ptr<const Callable>>(v);
}

/// Whether a text has letters of this case and none of the other.
template <bool upper>
Value has_only_case(Machine& m, const Value& v, const Arguments&) {
  const std::string text = to_text(v, m.meter());
  m.meter().charge(text.size());
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = unicode::decode(text, &at);
    if (upper ? is_python_lower(c) : is_python_upper(c)) return false;
    found = found || (upper ? is_python_upper(c) : is_python_lower(c));
  }
  return found;
}

/// self % by == rest, with Python's rules.
bool has_rest(Machine& m, const Value& self, const Value& by, int64_t rest) {
  return equal(apply(Operator::kModulo, self, by, m.meter()), rest, m.meter());
}

Value odd(Machine& m, const Value& self, const Arguments&) { return has_rest(m, self, int64_t{2}, 1); }
Value even(Machine& m, const Value& self, const Arguments&) { return has_rest(m, self, int64_t{2}, 0); }
Value divisible(Machine& m, const Value& self, const Arguments& arguments) {
  return has_rest(m, self, only_argument("divisibleby", arguments), 0);
}

Value in(Machine& m, const Value& self, const Arguments& arguments) {
  return contains(only_argument("in", arguments), self, m.meter());
}

/// The same object: for what has no identity here, of the same type and equal.
Value same_as(Machine& m, const Value& self, const Arguments& arguments) {
  const Value& other = only_argument("sameas", arguments);
  if (self.index() != other.index()) return false;
  if (const List* list = as_list(self)) return list == as_list(other);
  if (const Dict* dict = as_dict(self)) return dict == as_dict(other);
  return equal(self, other, m.meter());
}

Value filter_known(Machine&, const Value& self, const Arguments&) {
  return find_filter(need_text("filter", self).bytes) != nullptr;
}
Value test_known(Machine&, const Value& self, const Arguments&) {
  return find_test(need_text("test", self).bytes) != nullptr;
}

constexpr NamedFunction kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"iterable", simple<is_iterable>},
    {"sequence", simple<is_sequence_value>},
    {"number", simple<is_number>},
    {"integer", simple<is_whole>},
    {"float", simple<is_real>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"callable", simple<is_callable>},
    {"upper", has_only_case<true>},
    {"lower", has_only_case<false>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible},
    {"in", in},
    {"sameas", same_as},
    {"filter", filter_known},
    {"test", test_known},
    {"eq", compared<Operator::kEqual>},
    {"equalto", compared<Operator::kEqual>},
    {"==", compared<Operator::kEqual>},
    {"ne", compared<Operator::kUnequal>},
    {"!=", compared<Operator::kUnequal>},
    {"lt", compared<Operator::kLess>},
    {"lessthan", compared<Operator::kLess>},
    {"<", compared<Operator::kLess>},
    {"le", compared<Operator::kLessEqual>},
    {"<=", compared<Operator::kLessEqual>},
    {"gt", compared<Operator::kGreater>},
    {"greaterthan", compared<Operator::kGreater>},
    {">", compared<Operator::kGreater>},
    {"ge", compared<Operator::kGreaterEqual>},
    {">=", compared<Operator::kGreaterEqual>},
};

}  // namespace
}  // namespace of_tests

Function find_test(std::string_view name) { return find_in(of_tests::kTests, name); }

}  // namespace lathe::templates
