#include "lathe/tokenizers/templates/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "lathe/tokenizers/templates/expression_parser.h"

namespace lathe::templates {
namespace {

using Kind = Token::Kind;
using StatementPtr = std::unique_ptr<Statement>;

class Parser {
 public:
  Parser(const std::vector<Token>& tokens, Program* program)
      : program_(program), in_(tokens, program->place, program->names) {}

  void run() {
    program_->body = body({});
    if (in_.token().kind != Kind::kEnd) in_.unexpected("the end of the template");
  }

 private:
  [[noreturn]] void wrong(uint32_t line, const std::string& message) {
    malformed(program_->place, line, message);
  }

  StatementPtr make(StatementKind kind) {
    auto out = std::make_unique<Statement>();
    out->kind = kind;
    out->line = in_.token().line;
    return out;
  }

  bool at_tag(std::initializer_list<std::string_view> names) const {
    if (in_.token().kind != Kind::kBlockBegin || in_.token(1).kind != Kind::kName) return false;
    return std::find(names.begin(), names.end(), in_.token(1).text) != names.end();
  }

  void end_of_tag() {
    if (in_.token().kind != Kind::kBlockEnd) in_.unexpected("%}");
    in_.take();
  }

  /// Statements up to a tag of these names, at which the place stays, or to the end.
  Body body(std::initializer_list<std::string_view> ends) {
    if (++nested_ > kMostNestedSyntax)
      wrong(in_.token().line, "statements nest more than " + std::to_string(kMostNestedSyntax) + " deep");
    Body out;
    while (in_.token().kind != Kind::kEnd && !at_tag(ends)) {
      if (in_.token().kind == Kind::kText) {
        out.push_back(make(StatementKind::kText));
        out.back()->text = in_.take().text;
      } else if (in_.token().kind == Kind::kOutputBegin) {
        in_.take();
        out.push_back(make(StatementKind::kOutput));
        out.back()->expressions.push_back(in_.tuple(true));
        if (in_.token().kind != Kind::kOutputEnd) in_.unexpected("}}");
        in_.take();
      } else {
        out.push_back(statement());
      }
    }
    --nested_;
    return out;
  }

  /// The body of a tag, and its end: {% end %} is read.
  Body closed_body(std::string_view name, std::string_view end) {
    const uint32_t line = in_.token().line;
    end_of_tag();
    Body out = body({end});
    close(name, end, line);
    return out;
  }

  void close(std::string_view name, std::string_view end, uint32_t line) {
    if (!at_tag({end}))
      wrong(line, "`" + std::string(name) + "` is not closed; expected {% " + std::string(end) + " %}");
    in_.take();
    in_.take();
    end_of_tag();
  }

  /// A body whose text goes elsewhere: loops around it cannot be left from there.
  Body captured_body(std::string_view name, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    ++captures_;
    Body out = closed_body(name, end);
    --captures_;
    loops_ = loops;
    return out;
  }

  StatementPtr statement() {
    in_.take();
    const uint32_t line = in_.token().line;
    const std::string name = in_.expect_name("the name of a statement");
    if (name == "for") return for_statement();
    if (name == "if") return if_statement();
    if (name == "set") return set_statement();
    if (name == "macro") return macro_statement();
    if (name == "with") return with_statement();
    if (name == "filter") return filter_statement();
    if (name == "generation") return generation_statement(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) wrong(line, "found `" + name + "`, expected it only in a `for`");
      StatementPtr out = make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      end_of_tag();
      return out;
    }
    if (name.starts_with("end") || name.starts_with("el"))
      wrong(line, "found {% " + name + " %} without its beginning");
    outside(program_->place, line, "statement `" + name + "`");
  }

  StatementPtr for_statement() {
    StatementPtr out = make(StatementKind::kFor);
    const uint32_t line = out->line;
    out->expressions.push_back(in_.target(false));
    check_target(*out->expressions[0], line);
    if (!in_.skip_name("in")) in_.unexpected("`in`");
    out->expressions.push_back(in_.tuple(false));
    out->expressions.push_back(in_.skip_name("if") ? in_.expression() : nullptr);
    if (in_.is_name("recursive")) outside(program_->place, line, "statement `for … recursive`");
    end_of_tag();
    ++loops_;
    out->bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (at_tag({"else"})) {
      in_.take();
      in_.take();
      out->bodies.push_back(closed_body("for", "endfor"));
    } else {
      close("for", "endfor", line);
      out->bodies.emplace_back();
    }
    return out;
  }

  void check_target(const Expression& target, uint32_t line) {
    if (target.kind == ExpressionKind::kName && program_->names[target.id] == "loop")
      wrong(line, "found `loop` as the variable of a `for`, expected another name");
    for (const ExpressionPtr& part : target.parts) check_target(*part, line);
  }

  StatementPtr if_statement() {
    StatementPtr out = make(StatementKind::kIf);
    const uint32_t line = out->line;
    for (;;) {
      out->expressions.push_back(in_.tuple(true));
      end_of_tag();
      out->bodies.push_back(body({"elif", "else", "endif"}));
      if (!at_tag({"elif"})) break;
      in_.take();
      in_.take();
    }
    if (at_tag({"else"})) {
      in_.take();
      in_.take();
      out->bodies.push_back(closed_body("if", "endif"));
    } else {
      close("if", "endif", line);
      out->bodies.emplace_back();
    }
    return out;
  }

  StatementPtr set_statement() {
    StatementPtr out = make(StatementKind::kSet);
    out->expressions.push_back(in_.target(true));
    if (in_.skip_operator("=")) {
      out->expressions.push_back(in_.tuple(true));
      end_of_tag();
      return out;
    }
    if (out->expressions[0]->kind == ExpressionKind::kTuple) in_.unexpected("`=`");
    out->kind = StatementKind::kSetBlock;
    out->expressions.push_back(in_.skip_operator("|") ? in_.block_filter() : nullptr);
    out->bodies.push_back(captured_body("set", "endset"));
    return out;
  }

  StatementPtr macro_statement() {
    StatementPtr out = make(StatementKind::kMacro);
    const uint32_t line = out->line;
    MacroNode& macro = out->macro;
    const ExpressionPtr name = in_.target(false);
    if (name->kind != ExpressionKind::kName) wrong(line, "`macro` without a name");
    macro.name = program_->names[name->id];
    out->id = name->id;
    in_.expect_operator("(");
    ++in_.macros;
    while (!in_.is_operator(")")) {
      if (!macro.parameters.empty()) in_.expect_operator(",");
      const std::string parameter = in_.expect_name("the name of a parameter");
      const int id = program_->names.id(parameter);
      if (std::find(macro.parameters.begin(), macro.parameters.end(), id) != macro.parameters.end())
        wrong(line, "macro " + macro.name + ": found the parameter " + parameter + " twice");
      macro.parameters.push_back(id);
      if (in_.skip_operator("=")) {
        macro.defaults.push_back(in_.expression());
      } else if (!macro.defaults.empty()) {
        in_.unexpected("a default value, as the parameter before has one");
      }
    }
    in_.expect_operator(")");
    macro.body = captured_body("macro", "endmacro");
    --in_.macros;
    return out;
  }

  StatementPtr with_statement() {
    StatementPtr out = make(StatementKind::kWith);
    while (in_.token().kind != Kind::kBlockEnd) {
      if (!out->expressions.empty()) in_.expect_operator(",");
      ExpressionPtr target = in_.target(false);
      if (target->kind != ExpressionKind::kName) in_.unexpected("one variable in `with`");
      out->expressions.push_back(std::move(target));
      in_.expect_operator("=");
      out->expressions.push_back(in_.expression());
    }
    out->bodies.push_back(closed_body("with", "endwith"));
    return out;
  }

  StatementPtr filter_statement() {
    StatementPtr out = make(StatementKind::kFilterBlock);
    out->expressions.push_back(in_.block_filter());
    out->bodies.push_back(captured_body("filter", "endfilter"));
    return out;
  }

  StatementPtr generation_statement(uint32_t line) {
    // Where the text goes is not known there; transformers gives wrong places.
    if (captures_ > 0) outside(program_->place, line, "statement `generation` in a macro, block or filter");
    program_->has_generation = true;
    StatementPtr out = make(StatementKind::kGeneration);
    out->bodies.push_back(captured_body("generation", "endgeneration"));
    return out;
  }

  Program* program_;
  ExpressionParser in_;
  int nested_ = 0, loops_ = 0, captures_ = 0;
};

}  // namespace

Program parse_program(std::string_view source, const std::string& place) {
  Program out;
  out.place = place;
  out.source = source;
  const std::vector<Token> tokens = tokenize(source, place);
  Parser(tokens, &out).run();
  return out;
}

}  // namespace lathe::templates
