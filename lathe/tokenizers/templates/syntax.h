#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {

/// Syntax trees nest at most this deep: what walks them recurses.
constexpr int kMostNestedSyntax = 120;

/// Names of variables as numbers from 0.
class Names {
 public:
  int id(const std::string& name) {
    const auto [it, is_new] = ids_.try_emplace(name, static_cast<int>(names_.size()));
    if (is_new) names_.push_back(name);
    return it->second;
  }
  /// -1: the template does not have it.
  int find(const std::string& name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? -1 : it->second;
  }
  const std::string& operator[](int id) const { return names_[static_cast<size_t>(id)]; }

 private:
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> names_;
};

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

enum class ExpressionKind {
  kConstant,  ///< value
  kName,      ///< id
  kTuple,     ///< parts
  kList,      ///< parts
  kDict,      ///< parts: key, value, …
  kNot,       ///< parts[0]; so are the next two
  kNegative,
  kPositive,
  kBinary,  ///< operators[0], parts[0] and [1]
  kAnd,     ///< parts[0] and [1]
  kOr,
  kCompare,      ///< parts[0] operators[0] parts[1] operators[1] …
  kConcat,       ///< parts
  kConditional,  ///< parts: value, test, otherwise (may be null)
  kAttribute,    ///< parts[0].text
  kItem,         ///< parts[0][parts[1]]
  kSlice,        ///< parts[0][parts[1]:parts[2]:parts[3]], of which [1] to [3] may be null
  kCall,         ///< parts[0](parts[1], …); the last ones have the names of keywords
  kFilter,       ///< parts[0] (null in a block's filter) through function, with arguments as of a call
  kTest,         ///< parts[0] is text, likewise
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  uint32_t line = 0;
  int depth = 1;
  int id = 0;
  Value value;
  std::string text;
  Function function = nullptr;
  std::vector<Operator> operators;
  std::vector<std::unique_ptr<Expression>> parts;
  std::vector<std::string> keywords;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct MacroNode {
  std::string name;
  std::vector<int> parameters;
  std::vector<ExpressionPtr> defaults;  ///< of the last parameters
  Body body;
};

enum class StatementKind {
  kText,         ///< text
  kOutput,       ///< expressions[0]
  kFor,          ///< expressions: target, items, condition (may be null); bodies: loop, else
  kIf,           ///< expressions: the tests; bodies: one for each, then that of else
  kSet,          ///< expressions: target, value
  kSetBlock,     ///< expressions: target, filter (may be null); bodies[0]
  kMacro,        ///< id, macro
  kWith,         ///< expressions: target, value, …; bodies[0]
  kFilterBlock,  ///< expressions[0]: filter; bodies[0]
  kGeneration,   ///< bodies[0]
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  uint32_t line = 0;
  int id = 0;
  std::string text;
  std::vector<ExpressionPtr> expressions;
  std::vector<Body> bodies;
  MacroNode macro;
};

struct Program {
  std::string place, source;
  Names names;
  Body body;
  bool has_generation = false;
};

/// Throws kInvalidData "place:line: …".
[[noreturn]] void malformed(const std::string& place, uint32_t line, const std::string& message);
/// Throws kUnsupported "place:line: the <construct> is outside of …", with the way out.
[[noreturn]] void outside(const std::string& place, uint32_t line, const std::string& construct);

}  // namespace lathe::templates
