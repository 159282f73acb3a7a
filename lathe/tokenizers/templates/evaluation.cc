// Expressions.
#include <algorithm>
#include <array>
#include <cmath>

#include "lathe/text/text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"

namespace lathe::templates {
namespace {

using E = ExpressionKind;

Value no_attribute(const Value& object, const std::string& name) {
  const std::string kind = is_none(object) ? "None" : "a " + type_name(object);
  return undefined(kind + " has no attribute '" + name + "'");
}

/// The item at an index that may count from the end, or null.
const Value* item_at(const Values& items, int64_t index) {
  const auto n = std::ssize(items);
  if (index < 0) index += n;
  return index < 0 || index >= n ? nullptr : &items[static_cast<size_t>(index)];
}

Value callable_of(std::string name, Function function, Value self) {
  auto out = std::make_shared<Callable>();
  out->name = std::move(name);
  out->function = function;
  out->self = std::move(self);
  return std::shared_ptr<const Callable>(std::move(out));
}

}  // namespace

Value Machine::evaluate(const Expression& e) {
  const Deeper deeper(this);
  meter_.charge();
  line_ = e.line;
  switch (e.kind) {
    case E::kConstant:
      return e.value;
    case E::kName:
      return evaluate_name(e);
    case E::kTuple:
      return list(parts(e), List::Kind::kTuple);
    case E::kList:
      return list(parts(e));
    case E::kDict: {
      Pairs pairs;
      for (size_t i = 0; i < e.parts.size(); i += 2) {
        Value key = part(e, i);
        pairs.emplace_back(std::move(key), part(e, i + 1));
      }
      return make_dict(std::move(pairs), meter_);
    }
    case E::kNot:
      return !truth(part(e, 0));
    case E::kNegative:
    case E::kPositive:
      return evaluate_sign(e);
    case E::kBinary: {
      const Value left = part(e, 0), right = part(e, 1);
      return apply(e.operators[0], left, right, meter_);
    }
    case E::kAnd:
    case E::kOr: {
      Value left = part(e, 0);
      return truth(left) == (e.kind == E::kOr) ? left : part(e, 1);
    }
    case E::kCompare:
      return evaluate_compare(e);
    case E::kConcat: {
      std::string out;
      for (size_t i = 0; i < e.parts.size(); ++i) {
        out += to_text(part(e, i), meter_);
        meter_.check_size(out.size());
      }
      return text(std::move(out));
    }
    case E::kConditional:
      if (truth(part(e, 1))) return part(e, 0);
      return e.parts.size() > 2 ? part(e, 2)
                                : undefined("the `if` has no `else`, and its condition does not hold");
    case E::kAttribute:
      return attribute(part(e, 0), e.text);
    case E::kItem: {
      const Value object = part(e, 0);
      return item(object, part(e, 1));
    }
    case E::kSlice: {
      const Value object = part(e, 0), begin = part(e, 1), end = part(e, 2);
      return slice(object, begin, end, part(e, 3), meter_);
    }
    case E::kCall:
      return evaluate_call(e);
    case E::kFilter:
    case E::kTest:
      return evaluate_applied(e, Undefined{});
  }
  return Undefined{};
}

/// None where there is no expression.
Value Machine::part(const Expression& e, size_t i) {
  return e.parts[i] == nullptr ? Value(None{}) : evaluate(*e.parts[i]);
}

Values Machine::parts(const Expression& e) {
  Values out;
  out.reserve(e.parts.size());
  for (const ExpressionPtr& p : e.parts) out.push_back(evaluate(*p));
  return out;
}

Value Machine::evaluate_name(const Expression& e) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    meter_.charge(1 + scope->variables.size() / 8);
    for (const auto& [id, value] : scope->variables)
      if (id == e.id) return value;
  }
  const std::string& name = program_.names[e.id];
  if (const Function function = find_function(name)) return callable_of(name, function, Undefined{});
  return undefined("'" + name + "' is undefined");
}

Value Machine::evaluate_compare(const Expression& e) {
  Value left = part(e, 0);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = part(e, i + 1);
    if (!truth(apply(e.operators[i], left, right, meter_))) return false;
    left = std::move(right);
  }
  return true;
}

Value Machine::evaluate_sign(const Expression& e) {
  const Value v = part(e, 0);
  need_defined(v);
  if (!is_number(v)) fault("the sign of a {}; expected a number", type_name(v));
  if (e.kind == E::kNegative) {
    if (const double* d = std::get_if<double>(&v)) return -*d;
    return apply(Operator::kSubtract, int64_t{0}, v, meter_);
  }
  int64_t storage = 0;
  const int64_t* whole = as_integer(v, &storage);
  return whole != nullptr ? Value(*whole) : v;
}

Arguments Machine::arguments_of(const Expression& e) {
  Arguments out;
  const size_t first_named = e.parts.size() - e.keywords.size();
  for (size_t i = 1; i < e.parts.size(); ++i) {
    if (i < first_named) {
      out.positional.push_back(part(e, i));
    } else {
      out.named.emplace_back(e.keywords[i - first_named], part(e, i));
    }
  }
  return out;
}

Value Machine::evaluate_call(const Expression& e) {
  const Value callee = part(e, 0);
  const Arguments arguments = arguments_of(e);
  line_ = e.line;
  return call(callee, arguments);
}

/// A filter or test; self is what a chain of a block's filters begins with.
Value Machine::evaluate_applied(const Expression& e, const Value& self) {
  const Expression* inner = e.parts[0].get();
  const bool chained = inner != nullptr && inner->kind == E::kFilter;
  const Value subject = inner == nullptr ? self : chained ? evaluate_applied(*inner, self) : evaluate(*inner);
  const Arguments arguments = arguments_of(e);
  line_ = e.line;
  meter_.charge();
  return e.function(*this, subject, arguments);
}

Value Machine::attribute(const Value& object, const std::string& name) {
  need_defined(object);
  if (const Function method = find_method(object, name)) return callable_of(name, method, object);
  if (const Dict* dict = as_dict(object)) {
    if (changes_its_object(object, name)) return no_attribute(object, name);
    const Value* found = dict->find(std::string_view(name), meter_);
    return found != nullptr ? *found : no_attribute(object, name);
  }
  if (Namespace* const* space = std::get_if<Namespace*>(&object)) {
    for (const auto& [key, value] : (*space)->attributes) {
      meter_.charge();
      if (key == name) return value;
    }
  }
  if (const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&object))
    return loop_attribute(*loop, name);
  if (changes_its_object(object, name))
    return undefined("'" + name + "' changes a " + type_name(object) + ", which templates may not");
  return no_attribute(object, name);
}

Value Machine::loop_attribute(const std::shared_ptr<const Loop>& loop, const std::string& name) {
  const Values& items = loop->items->items;
  const int64_t i = static_cast<int64_t>(loop->index0), n = std::ssize(items);
  if (name == "index") return i + 1;
  if (name == "index0") return i;
  if (name == "revindex") return n - i;
  if (name == "revindex0") return n - i - 1;
  if (name == "first") return i == 0;
  if (name == "last") return i == n - 1;
  if (name == "length") return n;
  if (name == "depth") return int64_t{1};  // more only in loops that call themselves
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") return i > 0 ? items[loop->index0 - 1] : undefined("there is no previous item");
  if (name == "nextitem") return i + 1 < n ? items[loop->index0 + 1] : undefined("there is no next item");
  if (name == "changed") fault("`loop.changed` is outside of the part of Jinja that templates may use here");
  return undefined("loop has no attribute '" + name + "'");
}

Value Machine::item(const Value& object, const Value& key) {
  need_defined(object);
  const Text* name = as_text(key);
  if (const Dict* dict = as_dict(object)) {
    const bool usable = as_list(key) == nullptr && as_dict(key) == nullptr;
    if (const Value* found = usable ? dict->find(key, meter_) : nullptr) return *found;
  } else if (name == nullptr) {
    int64_t storage = 0;
    const int64_t* index = as_integer(key, &storage);
    const List* list = as_list(object);
    const bool sequence = list != nullptr && list->kind <= List::Kind::kRange;
    if (index != nullptr && sequence) {
      if (const Value* found = item_at(list->items, *index)) return *found;
    } else if (const Text* t = as_text(object); index != nullptr && t != nullptr) {
      const int64_t n = length_of(object), at = *index < 0 ? *index + n : *index;
      meter_.charge_text(t->bytes.size());
      if (at >= 0 && at < n) {
        const auto begin = static_cast<size_t>(at);
        return text(std::string(slice_code_points(t->bytes, begin, begin + 1)), t->safe);
      }
    }
  }
  if (name != nullptr) {
    if (std::holds_alternative<Namespace*>(object) || as_dict(object) == nullptr)
      return attribute(object, name->bytes);
    if (const Function method = find_method(object, name->bytes))
      return callable_of(name->bytes, method, object);
  }
  return undefined("a " + type_name(object) + " has no item " + to_text(key, meter_));
}

Value Machine::call(const Value& callee, const Arguments& arguments) {
  need_defined(callee);
  const auto* callable = std::get_if<std::shared_ptr<const Callable>>(&callee);
  if (callable == nullptr) fault("a {} is called; expected a function, method or macro", type_name(callee));
  const std::shared_ptr<const Callable> held = *callable;  // a macro may replace the variable it is in
  meter_.charge();
  if (held->macro != nullptr) return call_macro(*held, arguments);
  return held->function(*this, held->self, arguments);
}

}  // namespace lathe::templates
