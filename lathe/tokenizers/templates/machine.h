#pragma once
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tokenizers/templates/chat_template.h"
#include "lathe/tokenizers/templates/syntax.h"
#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {

/// Variables of a block, and the block around it.
struct Scope {
  explicit Scope(Scope* around) : parent(around) {}
  Scope* parent;
  bool kept = false;  ///< a macro has it: it lives as long as the machine
  std::vector<std::pair<int, Value>> variables;
};

/// One rendering of a program.  Expressions, statements and calls of macros recurse, at most
/// kMostDeep deep together.
class Machine {
 public:
  Machine(const Program& program, const RenderOptions& options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Throws Error with place and line.
  RenderedChat run(const nlohmann::ordered_json& context);

  Meter& meter() { return meter_; }
  Value text(std::string bytes, bool safe = false) { return make_text(std::move(bytes), meter_, safe); }
  Value list(Values items, List::Kind kind = List::Kind::kList) {
    return make_list(std::move(items), meter_, kind);
  }
  /// object.name and object[key]; undefined where there is none.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& callee, const Arguments& arguments);
  Value make_namespace(Pairs attributes);
  WallTime now() const;

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeOf;
  /// One call that recurses, as long as this lives; faults where there are too many.
  class Deeper {
   public:
    explicit Deeper(Machine* machine) : depth_(machine->depth_) {
      if (++depth_ > kMostDeep) too_deep();
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    [[noreturn]] void too_deep();
    int& depth_;
  };
  static constexpr int kMostDeep = 500;  ///< expressions and statements within each other, macros' included

  Value evaluate(const Expression& e);
  Value evaluate_name(const Expression& e);
  Value evaluate_compare(const Expression& e);
  Value evaluate_sign(const Expression& e);
  Value evaluate_call(const Expression& e);
  Value evaluate_applied(const Expression& e, const Value& self);
  Value part(const Expression& e, size_t i);
  Values parts(const Expression& e);
  Arguments arguments_of(const Expression& e);
  Value loop_attribute(const std::shared_ptr<const Loop>& loop, const std::string& name);
  Value call_macro(const Callable& callable, const Arguments& arguments);

  Flow execute(const Body& body);
  Flow execute(const Statement& s);
  Flow execute_for(const Statement& s);
  Flow execute_iteration(const Statement& s, const std::shared_ptr<const List>& items, size_t index);
  Flow execute_if(const Statement& s);
  void execute_macro(const Statement& s);
  void execute_generation(const Statement& s);
  std::string captured(const Body& body);
  void assign(const Expression& target, Value value);
  void set(int id, Value value);
  void print(const Value& v);

  const Program& program_;
  const RenderOptions& options_;
  Meter meter_;
  Scope root_{nullptr};
  Scope* scope_ = &root_;
  std::string* out_ = nullptr;
  RenderedChat result_;
  std::vector<std::unique_ptr<Scope>> kept_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  uint32_t line_ = 1;
  int depth_ = 0;
  int loop_id_;
};

}  // namespace lathe::templates
