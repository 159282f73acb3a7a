#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/templates/lexer.h"
#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {

/// Reads expressions from tokens, as Jinja's grammar has them.
class ExpressionParser {
 public:
  /// All must outlive the parser.
  ExpressionParser(const std::vector<Token>& tokens, const std::string& place, Names& names)
      : tokens_(tokens), place_(place), names_(names) {}

  const Token& token(size_t ahead = 0) const;
  const Token& take();
  bool is_operator(std::string_view text, size_t ahead = 0) const;
  bool is_name(std::string_view text, size_t ahead = 0) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  /// The name at the place, which is moved past it; `what` is for the message.
  std::string expect_name(const char* what);
  [[noreturn]] void unexpected(const char* expected) const;

  /// One or more expressions with commas: a tuple.  conditional: whether `a if b` is one of them.
  ExpressionPtr tuple(bool conditional);
  ExpressionPtr expression(bool conditional = true);
  /// `| name(…)` once or more, of nothing: a block's filter.  The place is at the first name.
  ExpressionPtr block_filter();
  /// Variables that a `for`, `set`, or `with` sets: names, tuples of them, and where allowed an attribute.
  ExpressionPtr target(bool attributes);
  ExpressionPtr make(ExpressionKind kind, std::vector<ExpressionPtr> parts = {}) const;

  /// > 0: inside of a macro, where Jinja has names of its own.
  int macros = 0;

 private:
  /// Counts how deep the parser calls itself.
  class Level {
   public:
    explicit Level(ExpressionParser* parser) : parser_(parser) {
      if (++parser->level_ > kMostNestedSyntax) parser->too_deep(parser->token().line);
    }
    ~Level() { --parser_->level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser* parser_;
  };
  [[noreturn]] void too_deep(uint32_t line) const;
  static std::vector<ExpressionPtr> parts_of(ExpressionPtr a, ExpressionPtr b = nullptr,
                                             ExpressionPtr c = nullptr);
  ExpressionPtr conditional_of();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr list_or_dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr node);
  void arguments(Expression* node);
  bool at_end_of_tuple() const;
  ExpressionPtr finish(ExpressionPtr node) const;
  ExpressionPtr binary(Operator op, ExpressionPtr left, ExpressionPtr right) const;
  ExpressionPtr target_item(bool attributes);

  const std::vector<Token>& tokens_;
  const std::string& place_;
  Names& names_;
  size_t at_ = 0;
  int level_ = 0;
};

}  // namespace lathe::templates
