#include "lathe/tokenizers/templates/expression_parser.h"

#include <algorithm>

namespace lathe::templates {
namespace {

using Kind = Token::Kind;
using E = ExpressionKind;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Kind::kText:
      return "a text";
    case Kind::kOutputBegin:
      return "{{";
    case Kind::kOutputEnd:
      return "}}";
    case Kind::kBlockBegin:
      return "{%";
    case Kind::kBlockEnd:
      return "%}";
    case Kind::kInteger:
      return std::to_string(token.integer);
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "the text '" + token.text.substr(0, 40) + "'";
    case Kind::kEnd:
      return "the end of the template";
    default:
      return "`" + token.text.substr(0, 60) + "`";
  }
}

}  // namespace

std::vector<ExpressionPtr> ExpressionParser::parts_of(ExpressionPtr a, ExpressionPtr b, ExpressionPtr c) {
  std::vector<ExpressionPtr> out;
  out.push_back(std::move(a));
  if (b != nullptr) out.push_back(std::move(b));
  if (c != nullptr) out.push_back(std::move(c));
  return out;
}

void ExpressionParser::too_deep(uint32_t line) const {
  malformed(place_, line, "an expression nests more than " + std::to_string(kMostNestedSyntax) + " deep");
}

const Token& ExpressionParser::token(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& ExpressionParser::take() {
  const Token& out = token();
  ++at_;
  return out;
}

bool ExpressionParser::is_operator(std::string_view text, size_t ahead) const {
  return token(ahead).kind == Kind::kOperator && token(ahead).text == text;
}

bool ExpressionParser::is_name(std::string_view text, size_t ahead) const {
  return token(ahead).kind == Kind::kName && token(ahead).text == text;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  ++at_;
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(("`" + std::string(text) + "`").c_str());
}

std::string ExpressionParser::expect_name(const char* what) {
  if (token().kind != Kind::kName) unexpected(what);
  return take().text;
}

void ExpressionParser::unexpected(const char* expected) const {
  malformed(place_, token().line, "found " + shown(token()) + ", expected " + expected);
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, std::vector<ExpressionPtr> parts) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = token().line;
  node->parts = std::move(parts);
  if (!node->parts.empty() && node->parts[0] != nullptr) node->line = node->parts[0]->line;
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::finish(ExpressionPtr node) const {
  for (const ExpressionPtr& part : node->parts)
    if (part != nullptr) node->depth = std::max(node->depth, part->depth + 1);
  if (node->depth > kMostNestedSyntax) too_deep(node->line);
  return node;
}

ExpressionPtr ExpressionParser::binary(Operator op, ExpressionPtr left, ExpressionPtr right) const {
  ExpressionPtr node = make(E::kBinary, parts_of(std::move(left), std::move(right)));
  node->operators.push_back(op);
  return node;
}

bool ExpressionParser::at_end_of_tuple() const {
  return token().kind == Kind::kOutputEnd || token().kind == Kind::kBlockEnd || is_operator(")") ||
         is_name("in");
}

ExpressionPtr ExpressionParser::tuple(bool conditional) {
  ExpressionPtr first = expression(conditional);
  if (!is_operator(",")) return first;
  std::vector<ExpressionPtr> parts = parts_of(std::move(first));
  while (skip_operator(",") && !at_end_of_tuple()) parts.push_back(expression(conditional));
  return make(E::kTuple, std::move(parts));
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  const Level level(this);
  return conditional ? conditional_of() : disjunction();
}

ExpressionPtr ExpressionParser::conditional_of() {
  ExpressionPtr value = disjunction();
  while (skip_name("if")) {
    ExpressionPtr test = disjunction();
    ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
    value = make(E::kConditional, parts_of(std::move(value), std::move(test), std::move(otherwise)));
  }
  return value;
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr left = conjunction();
  while (skip_name("or")) {
    ExpressionPtr right = conjunction();
    left = make(E::kOr, parts_of(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr left = negation();
  while (skip_name("and")) {
    ExpressionPtr right = negation();
    left = make(E::kAnd, parts_of(std::move(left), std::move(right)));
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!skip_name("not")) return comparison();
  const Level level(this);
  return make(E::kNot, parts_of(negation()));
}

ExpressionPtr ExpressionParser::comparison() {
  struct Symbol {
    std::string_view text;
    Operator op;
  };
  constexpr Symbol kSymbols[] = {{"==", Operator::kEqual},  {"!=", Operator::kUnequal},
                                 {"<", Operator::kLess},    {"<=", Operator::kLessEqual},
                                 {">", Operator::kGreater}, {">=", Operator::kGreaterEqual}};
  std::vector<ExpressionPtr> parts = parts_of(sum());
  std::vector<Operator> operators;
  for (;;) {
    const auto* symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                      [&](const Symbol& s) { return is_operator(s.text); });
    if (symbol != std::end(kSymbols)) {
      take();
      operators.push_back(symbol->op);
    } else if (skip_name("in")) {
      operators.push_back(Operator::kIn);
    } else if (is_name("not") && is_name("in", 1)) {
      take();
      take();
      operators.push_back(Operator::kNotIn);
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (operators.empty()) return std::move(parts[0]);
  ExpressionPtr node = make(E::kCompare, std::move(parts));
  node->operators = std::move(operators);
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    const Operator op = take().text == "+" ? Operator::kAdd : Operator::kSubtract;
    ExpressionPtr right = concatenation();
    left = binary(op, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  std::vector<ExpressionPtr> parts = parts_of(product());
  while (skip_operator("~")) parts.push_back(product());
  return parts.size() == 1 ? std::move(parts[0]) : make(E::kConcat, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    const std::string_view text = take().text;
    const Operator op = text == "*"    ? Operator::kMultiply
                        : text == "/"  ? Operator::kDivide
                        : text == "//" ? Operator::kFloorDivide
                                       : Operator::kModulo;
    ExpressionPtr right = power();
    left = binary(op, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (skip_operator("**")) {
    ExpressionPtr right = unary(true);
    left = binary(Operator::kPower, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool filters) {
  const Level level(this);
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    const E kind = take().text == "-" ? E::kNegative : E::kPositive;
    node = make(kind, parts_of(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return filters ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace lathe::templates
