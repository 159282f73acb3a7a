// Statements and scopes.
#include "lathe/tokenizers/templates/machine.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/tokenizers/templates/library.h"

namespace lathe::templates {
namespace {

/// Where the value of a variable is, or null.
Value* find_in_scope(Scope* scope, int id) {
  for (auto& [name, value] : scope->variables)
    if (name == id) return &value;
  return nullptr;
}

}  // namespace

/// A scope for as long as this lives.
class Machine::ScopeOf {
 public:
  ScopeOf(Machine* machine, Scope* parent)
      : machine_(machine), before_(machine->scope_), scope_(std::make_unique<Scope>(parent)) {
    machine_->scope_ = scope_.get();
  }
  ~ScopeOf() {
    machine_->scope_ = before_;
    if (scope_->kept) machine_->kept_.push_back(std::move(scope_));
  }
  ScopeOf(const ScopeOf&) = delete;
  ScopeOf& operator=(const ScopeOf&) = delete;

 private:
  Machine* machine_;
  Scope* before_;
  std::unique_ptr<Scope> scope_;
};

void Machine::Deeper::too_deep() {
  --depth_;  // no destructor follows
  fault("expressions, statements and macros nest more than {} deep; does a macro call itself without end?",
        kMostDeep);
}

Machine::Machine(const Program& program, const RenderOptions& options)
    : program_(program),
      options_(options),
      meter_(options.limits.steps, options.limits.text_bytes),
      loop_id_(program.names.find("loop")) {}

Machine::~Machine() {
  // Namespaces may hold each other.
  for (const auto& space : namespaces_) space->attributes.clear();
}

RenderedChat Machine::run(const nlohmann::ordered_json& context) {
  try {
    for (auto it = context.begin(); it != context.end(); ++it) {
      const int id = program_.names.find(it.key());
      if (id >= 0) root_.variables.emplace_back(id, from_json(*it, meter_));
    }
    out_ = &result_.text;
    execute(program_.body);
  } catch (const Fault& f) {
    fail(f.code, "{}:{}: {}", program_.place, line_, f.message);
  }
  return std::move(result_);
}

Machine::Flow Machine::execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Machine::Flow Machine::execute(const Statement& s) {
  const Deeper deeper(this);
  meter_.charge();
  line_ = s.line;
  switch (s.kind) {
    case StatementKind::kText:
      meter_.charge_text(s.text.size());
      *out_ += s.text;
      meter_.check_size(out_->size());
      break;
    case StatementKind::kOutput:
      print(evaluate(*s.expressions[0]));
      break;
    case StatementKind::kFor:
      return execute_for(s);
    case StatementKind::kIf:
      return execute_if(s);
    case StatementKind::kSet:
      assign(*s.expressions[0], evaluate(*s.expressions[1]));
      break;
    case StatementKind::kSetBlock: {
      Value value = text(captured(s.bodies[0]));
      if (s.expressions[1] != nullptr) value = evaluate_applied(*s.expressions[1], value);
      assign(*s.expressions[0], std::move(value));
      break;
    }
    case StatementKind::kMacro:
      execute_macro(s);
      break;
    case StatementKind::kWith: {
      Values values;
      for (size_t i = 1; i < s.expressions.size(); i += 2) values.push_back(evaluate(*s.expressions[i]));
      const ScopeOf inner(this, scope_);
      for (size_t i = 0; i < values.size(); ++i) assign(*s.expressions[2 * i], std::move(values[i]));
      return execute(s.bodies[0]);
    }
    case StatementKind::kFilterBlock:
      print(evaluate_applied(*s.expressions[0], text(captured(s.bodies[0]))));
      break;
    case StatementKind::kGeneration:
      execute_generation(s);
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Machine::Flow Machine::execute_for(const Statement& s) {
  const Expression* condition = s.expressions[2].get();
  Values values = iterate(evaluate(*s.expressions[1]), meter_);
  if (condition != nullptr) {
    Values chosen;
    for (Value& v : values) {
      meter_.charge();
      const ScopeOf inner(this, scope_);
      assign(*s.expressions[0], v);
      if (truth(evaluate(*condition))) chosen.push_back(std::move(v));
    }
    values = std::move(chosen);
  }
  const Value list = make_list(std::move(values), meter_);  // which checks how deep it is
  const auto& items = std::get<std::shared_ptr<const List>>(list);
  // As in Jinja, `else` is for a loop of which no body came to its end.
  bool ended = false;
  for (size_t i = 0; i < items->items.size(); ++i) {
    meter_.charge();
    const Flow flow = execute_iteration(s, items, i);
    ended = ended || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (ended) return Flow::kNext;
  const ScopeOf inner(this, scope_);
  return execute(s.bodies[1]);
}

Machine::Flow Machine::execute_iteration(const Statement& s, const std::shared_ptr<const List>& items,
                                         size_t index) {
  const ScopeOf inner(this, scope_);
  if (loop_id_ >= 0) set(loop_id_, std::make_shared<const Loop>(Loop{items, index}));
  assign(*s.expressions[0], items->items[index]);
  return execute(s.bodies[0]);
}

Machine::Flow Machine::execute_if(const Statement& s) {
  for (size_t i = 0; i < s.expressions.size(); ++i)
    if (truth(evaluate(*s.expressions[i]))) return execute(s.bodies[i]);
  return execute(s.bodies.back());
}

void Machine::execute_macro(const Statement& s) {
  auto macro = std::make_shared<Callable>();
  macro->name = s.macro.name;
  macro->macro = &s.macro;
  macro->scope = scope_;
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) scope->kept = true;
  set(s.id, std::shared_ptr<const Callable>(std::move(macro)));
}

void Machine::execute_generation(const Statement& s) {
  const size_t begin = out_->size();
  {
    const ScopeOf inner(this, scope_);
    execute(s.bodies[0]);
  }
  result_.generated.push_back({begin, out_->size()});
}

std::string Machine::captured(const Body& body) {
  std::string out;
  std::string* const before = std::exchange(out_, &out);
  const ScopeOf inner(this, scope_);
  execute(body);
  out_ = before;
  return out;
}

void Machine::set(int id, Value value) {
  if (Value* found = find_in_scope(scope_, id)) {
    *found = std::move(value);
  } else {
    scope_->variables.emplace_back(id, std::move(value));
  }
}

void Machine::assign(const Expression& target, Value value) {
  if (target.kind == ExpressionKind::kName) return set(target.id, std::move(value));
  if (target.kind == ExpressionKind::kAttribute) {
    const Value object = evaluate(*target.parts[0]);
    Namespace* const* space = std::get_if<Namespace*>(&object);
    if (space == nullptr)
      fault("set {}.{}: found a {}, expected a namespace, which only `namespace(…)` makes",
            program_.names[target.parts[0]->id], target.text, type_name(object));
    if (target.text.starts_with('_'))
      fault("set: found the attribute {}, expected no underscore in front", target.text);
    for (auto& [name, old] : (*space)->attributes) {
      meter_.charge();
      if (name != target.text) continue;
      old = std::move(value);
      return;
    }
    (*space)->attributes.emplace_back(target.text, std::move(value));
    return;
  }
  const Values values = iterate(value, meter_);
  if (values.size() != target.parts.size())
    fault("found {} values for {} variables", values.size(), target.parts.size());
  for (size_t i = 0; i < values.size(); ++i) assign(*target.parts[i], values[i]);
}

void Machine::print(const Value& v) {
  if (const Text* t = as_text(v)) {
    meter_.charge_text(t->bytes.size());
    *out_ += t->bytes;
  } else {
    *out_ += to_text(v, meter_);
  }
  meter_.check_size(out_->size());
}

Value Machine::call_macro(const Callable& callable, const Arguments& arguments) {
  const MacroNode& macro = *callable.macro;
  const size_t n = macro.parameters.size();
  if (arguments.positional.size() > n)
    fault("macro {}: found {} arguments, expected at most {}", macro.name, arguments.positional.size(), n);
  std::vector<const Value*> given(n, nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) given[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < n && program_.names[macro.parameters[i]] != name) ++i;
    if (i == n || given[i] != nullptr)
      fault("macro {}: found the argument {}, which it has no place for", macro.name, name);
    given[i] = &value;
  }
  const uint32_t line = line_;
  std::string out;
  std::string* const before = std::exchange(out_, &out);
  {
    const ScopeOf inner(this, callable.scope);
    for (size_t i = 0; i < n; ++i) {
      const size_t first_default = n - macro.defaults.size();
      set(macro.parameters[i],
          given[i] != nullptr ? *given[i]
          : i >= first_default
              ? evaluate(*macro.defaults[i - first_default])
              : undefined("parameter '" + program_.names[macro.parameters[i]] + "' was not provided"));
    }
    execute(macro.body);
  }
  out_ = before;
  line_ = line;
  return text(std::move(out));
}

Value Machine::make_namespace(Pairs attributes) {
  meter_.charge(8);
  auto space = std::make_unique<Namespace>();
  for (auto& [name, value] : attributes) {
    const Text* key = as_text(name);
    if (key == nullptr || key->bytes.starts_with('_'))
      fault("namespace: found the attribute {}, expected a name without underscore in front",
            to_text(name, meter_));
    space->attributes.emplace_back(key->bytes, std::move(value));
  }
  namespaces_.push_back(std::move(space));
  return namespaces_.back().get();
}

WallTime Machine::now() const {
  if (options_.now.has_value()) return *options_.now;
  const std::time_t seconds = std::time(nullptr);
  std::tm t{};
  localtime_r(&seconds, &t);
  return {t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec};
}

}  // namespace lathe::templates
