// Values, what follows them, and targets of assignments.
#include <algorithm>
#include <array>

#include "lathe/tokenizers/templates/expression_parser.h"
#include "lathe/tokenizers/templates/library.h"

namespace lathe::templates {
namespace {

using Kind = Token::Kind;
using E = ExpressionKind;

Value constant_text(std::string text) { return std::make_shared<const Text>(Text{std::move(text), false}); }

bool is_reserved(const std::string& name) {
  constexpr std::array<std::string_view, 14> kReserved = {
      "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else", "elif"};
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace

ExpressionPtr ExpressionParser::primary() {
  if (token().kind == Kind::kName) return name_or_constant();
  if (token().kind == Kind::kString) {
    ExpressionPtr node = make(E::kConstant);
    std::string text;
    while (token().kind == Kind::kString) text += take().text;
    node->value = constant_text(std::move(text));
    return node;
  }
  if (token().kind == Kind::kInteger || token().kind == Kind::kFloat) {
    ExpressionPtr node = make(E::kConstant);
    const Token& number = take();
    node->value = number.kind == Kind::kInteger ? Value(number.integer) : Value(number.real);
    return node;
  }
  if (skip_operator("(")) {
    ExpressionPtr node = is_operator(")") ? make(E::kTuple) : tuple(true);
    expect_operator(")");
    return node;
  }
  if (is_operator("[") || is_operator("{")) return list_or_dict();
  unexpected("an expression");
}

ExpressionPtr ExpressionParser::name_or_constant() {
  const std::string& name = token().text;
  ExpressionPtr node = make(E::kConstant);
  if (name == "true" || name == "True") {
    node->value = true;
  } else if (name == "false" || name == "False") {
    node->value = false;
  } else if (name == "none" || name == "None") {
    node->value = None{};
  } else if (is_reserved(name)) {
    unexpected("an expression");
  } else {
    if (macros > 0 && (name == "caller" || name == "varargs" || name == "kwargs"))
      outside(place_, node->line, "name `" + name + "` of macros");
    node->kind = E::kName;
    node->id = names_.id(name);
  }
  take();
  return node;
}

ExpressionPtr ExpressionParser::list_or_dict() {
  const bool list = take().text == "[";
  const char* end = list ? "]" : "}";
  std::vector<ExpressionPtr> parts;
  while (!is_operator(end)) {
    if (!parts.empty()) {
      expect_operator(",");
      if (is_operator(end)) break;
    }
    parts.push_back(expression());
    if (list) continue;
    expect_operator(":");
    parts.push_back(expression());
  }
  expect_operator(end);
  return make(list ? E::kList : E::kDict, std::move(parts));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  for (;;) {
    if (is_operator("(")) {
      node = call(std::move(node));
    } else if (skip_operator("[")) {
      node = subscript(std::move(node));
    } else if (skip_operator(".")) {
      if (token().kind == Kind::kInteger) {
        ExpressionPtr index = make(E::kConstant);
        index->value = take().integer;
        node = make(E::kItem, parts_of(std::move(node), std::move(index)));
        continue;
      }
      const std::string name = expect_name("the name of an attribute");
      node = make(E::kAttribute, parts_of(std::move(node)));
      node->text = name;
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node) {
  ExpressionPtr bounds[3];
  size_t colons = 0;
  while (!is_operator("]")) {
    if (skip_operator(":")) {
      if (++colons > 2) unexpected("`]`");
      continue;
    }
    if (bounds[colons] != nullptr) {
      if (is_operator(",")) outside(place_, token().line, "subscript with several values");
      unexpected("`]`");
    }
    bounds[colons] = expression();
  }
  if (colons == 0 && bounds[0] == nullptr) unexpected("an expression");
  take();
  if (colons == 0) return make(E::kItem, parts_of(std::move(node), std::move(bounds[0])));
  std::vector<ExpressionPtr> parts = parts_of(std::move(node));
  for (ExpressionPtr& bound : bounds) parts.push_back(std::move(bound));
  return make(E::kSlice, std::move(parts));
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr node) {
  for (;;) {
    if (skip_operator("|")) {
      node = filter(std::move(node));
    } else if (skip_name("is")) {
      node = test(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr node) {
  const uint32_t line = token().line;
  const std::string name = expect_name("the name of a filter");
  ExpressionPtr out = make(E::kFilter, parts_of(std::move(node)));
  out->line = line;
  out->text = name;
  out->function = find_filter(name);
  if (out->function == nullptr) outside(place_, line, "filter `" + name + "`");
  if (skip_operator("(")) arguments(out.get());
  return finish(std::move(out));
}

ExpressionPtr ExpressionParser::block_filter() {
  ExpressionPtr node = filter(nullptr);
  while (skip_operator("|")) node = filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr node) {
  const bool negated = skip_name("not");
  const uint32_t line = token().line;
  const std::string name = expect_name("the name of a test");
  ExpressionPtr out = make(E::kTest, parts_of(std::move(node)));
  out->line = line;
  out->text = name;
  out->function = find_test(name);
  if (out->function == nullptr) outside(place_, line, "test `" + name + "`");
  const bool ends =
      is_name("else") || is_name("or") || is_name("and") || is_name("if") || is_name("not") || is_name("in");
  const Kind kind = token().kind;
  if (is_name("is")) unexpected("one test after `is`");
  if (skip_operator("(")) {
    arguments(out.get());
  } else if (!ends && (kind == Kind::kName || kind == Kind::kString || kind == Kind::kInteger ||
                       kind == Kind::kFloat || is_operator("[") || is_operator("{"))) {
    ExpressionPtr argument = primary();
    out->parts.push_back(postfix(std::move(argument)));
  }
  out = finish(std::move(out));
  return negated ? make(E::kNot, parts_of(std::move(out))) : std::move(out);
}

ExpressionPtr ExpressionParser::call(ExpressionPtr node) {
  const uint32_t line = token().line;
  const bool method = node->kind == E::kAttribute;
  if (method && !is_method(node->text)) outside(place_, line, "method `" + node->text + "`");
  if (node->kind == E::kName) {
    const std::string& name = names_[node->id];
    for (const char* missing : {"cycler", "joiner", "lipsum", "super", "gettext", "ngettext", "_"})
      if (name == missing) outside(place_, line, "function `" + name + "`");
  }
  expect_operator("(");
  ExpressionPtr out = make(E::kCall, parts_of(std::move(node)));
  out->line = line;
  arguments(out.get());
  return finish(std::move(out));
}

/// After the ( up to its ).
void ExpressionParser::arguments(Expression* node) {
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    if (is_operator("*") || is_operator("**"))
      outside(place_, token().line, "argument with `" + token().text + "`");
    if (token().kind == Kind::kName && is_operator("=", 1)) {
      node->keywords.push_back(take().text);
      take();
    } else if (!node->keywords.empty()) {
      unexpected("an argument with a name, after others with names");
    }
    node->parts.push_back(expression());
  }
  take();
}

ExpressionPtr ExpressionParser::target(bool attributes) {
  const Level level(this);
  ExpressionPtr first = target_item(attributes);
  if (!is_operator(",")) return first;
  std::vector<ExpressionPtr> parts = parts_of(std::move(first));
  while (skip_operator(",") && (token().kind == Kind::kName || is_operator("(")) && !is_name("in"))
    parts.push_back(target_item(false));
  return make(E::kTuple, std::move(parts));
}

ExpressionPtr ExpressionParser::target_item(bool attributes) {
  if (skip_operator("(")) {
    ExpressionPtr inner = target(false);
    expect_operator(")");
    return inner;
  }
  const std::string name = token().text;
  if (token().kind != Kind::kName || is_reserved(name)) unexpected("the name of a variable");
  ExpressionPtr node = make(E::kName);
  node->id = names_.id(name);
  take();
  if (!attributes || !skip_operator(".")) return node;
  const std::string attribute = expect_name("the name of an attribute");
  node = make(E::kAttribute, parts_of(std::move(node)));
  node->text = attribute;
  return node;
}

}  // namespace lathe::templates
