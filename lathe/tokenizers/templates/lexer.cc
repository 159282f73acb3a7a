#include "lathe/tokenizers/templates/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lathe/core/strtod_c.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {
namespace {

using Kind = Token::Kind;

bool is_space_at(std::string_view text, size_t* at) {
  if (*at >= text.size()) return false;
  size_t next = *at;
  if (!is_python_space(unicode::decode(text, &next))) return false;
  *at = next;
  return true;
}

size_t skip_space(std::string_view text, size_t at) {
  while (is_space_at(text, &at)) {
  }
  return at;
}

std::string_view without_space_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end;
    if (!is_python_space(unicode::decode_back(text, &at))) break;
    end = at;
  }
  return text.substr(0, end);
}

/// What the template is written in: \r\n and \r are \n, and a last line end does not count.
std::string with_line_ends(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& place) : text_(source), place_(place) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const size_t tag = next_tag();
      if (tag == std::string_view::npos) {
        add_text(text_.substr(at_), '+', false);
        at_ = text_.size();
        break;
      }
      read_tag(tag);
    }
    add(Kind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void wrong(const std::string& message) const {
    const auto before = text_.substr(0, at_);
    malformed(place_, static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')), message);
  }

  uint32_t line_at(size_t at) const {
    while (counted_ < std::min(at, text_.size())) line_ += text_[counted_++] == '\n' ? 1 : 0;
    return line_;
  }

  void add(Kind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_at(at_);
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  size_t next_tag() const {
    for (size_t i = text_.find('{', at_); i != std::string_view::npos; i = text_.find('{', i + 1)) {
      if (i + 1 < text_.size() && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#'))
        return i;
    }
    return std::string_view::npos;
  }

  /// sign: of the tag that follows; block: whether lstrip_blocks counts for it.
  void add_text(std::string_view text, char sign, bool block) {
    if (sign == '-') {
      text = without_space_at_end(text);
    } else if (sign != '+' && block) {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is none
      if ((line > 0 || at_line_start_) && skip_space(text, line) == text.size()) text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::kText, std::string(text));
  }

  char sign_at(size_t at) const {
    return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : ' ';
  }

  void read_tag(size_t tag) {
    const char kind = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_text(text_.substr(at_, tag - at_), sign, kind != '{');
    at_ = tag + (sign == ' ' ? 2 : 3);
    if (kind == '#') {
      read_comment();
    } else if (kind == '%' && read_raw()) {
    } else {
      add(kind == '%' ? Kind::kBlockBegin : Kind::kOutputBegin, {});
      read_code(kind == '%');
    }
  }

  /// Past the end of a tag, whose mark is at the place: `-` takes the white space after it, and a block one
  /// line end.
  void end_tag(size_t mark, char sign, bool trims) {
    size_t end = mark + 2;
    if (sign == '-') {
      end = skip_space(text_, end);
    } else if (sign != '+' && trims && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    at_line_start_ = text_[end - 1] == '\n';
    at_ = end;
  }

  void read_comment() {
    const size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) wrong("a comment is not closed; expected #}");
    const char before = end > at_ ? text_[end - 1] : ' ';
    end_tag(end, before == '-' || before == '+' ? before : ' ', true);
  }

  /// The place of the %} of a tag that is only this word, from its first character on, or npos.
  size_t end_of_word_tag(size_t at, std::string_view word) const {
    at = skip_space(text_, at);
    if (text_.substr(at, word.size()) != word) return std::string_view::npos;
    at = skip_space(text_, at + word.size());
    if (sign_at(at) != ' ') ++at;
    return text_.substr(at, 2) == "%}" ? at : std::string_view::npos;
  }

  bool read_raw() {
    const size_t mark = end_of_word_tag(at_, "raw");
    if (mark == std::string_view::npos) return false;
    end_tag(mark, text_[mark - 1], false);
    for (size_t i = text_.find("{%", at_); i != std::string_view::npos; i = text_.find("{%", i + 2)) {
      const char sign = sign_at(i + 2);
      const size_t end = end_of_word_tag(i + (sign == ' ' ? 2 : 3), "endraw");
      if (end == std::string_view::npos) continue;
      add_text(text_.substr(at_, i - at_), sign, true);
      end_tag(end, text_[end - 1], true);
      return true;
    }
    wrong("`raw` is not closed; expected {% endraw %}");
  }

  /// Tokens of an expression or statement up to the end of its tag.
  void read_code(bool block) {
    const size_t begin = at_;
    const char* close = block ? "%}" : "}}";
    open_.clear();
    for (;;) {
      at_ = skip_space(text_, at_);
      if (at_ >= text_.size()) {
        at_ = begin;
        wrong(std::string("a tag is not closed; expected ") + close);
      }
      if (open_.empty()) {
        const char sign = sign_at(at_);
        const bool signs = sign == '-' || (sign == '+' && block);
        const size_t mark = signs ? at_ + 1 : at_;
        if (text_.substr(mark, 2) == close) {
          add(block ? Kind::kBlockEnd : Kind::kOutputEnd, {});
          end_tag(mark, signs ? sign : ' ', block);
          return;
        }
      }
      read_token();
    }
  }

  void read_token() {
    const char c = text_[at_];
    if (is_digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string(c);
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      if (!is_word_character(unicode::decode(text_, &next))) break;
      end = next;
    }
    if (end > at_) {
      add(Kind::kName, std::string(text_.substr(at_, end - at_)));
      at_ = end;
      return;
    }
    read_operator();
  }

  void read_operator() {
    constexpr std::array<std::string_view, 27> kOperators = {
        "==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "(", ")",
        "[",  "]",  "{",  "}",  "<",  ">",  "=", ".", ":", "|", ",", ";", "!"};
    for (const std::string_view op : kOperators) {
      if (!text_.substr(at_).starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") open_ += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (op == ")" || op == "]" || op == "}") {
        if (open_.empty() || open_.back() != op[0])
          wrong("found " + std::string(op) + " without its beginning");
        open_.pop_back();
      }
      add(Kind::kOperator, std::string(op));
      at_ += op.size();
      return;
    }
    size_t next = at_;
    unicode::decode(text_, &next);
    wrong("found the character " + std::string(text_.substr(at_, next - at_)) + "; expected an expression");
  }

  void read_number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < text_.size() && (is_digit(text_[end]) || (text_[end] == '_' && end + 1 < text_.size() &&
                                                             is_digit(text_[end + 1]))))
        ++end;
    };
    int base = 10;
    size_t begin = at_;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const char mark = static_cast<char>(text_[at_ + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    bool real = false;
    if (base != 10) {
      begin = end = at_ + 2;
      while (end < text_.size() &&
             (std::isxdigit(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_'))
        ++end;
    } else {
      digits();
      if (at_ == 0 || text_[at_ - 1] != '.') real = read_fraction(&end, digits);
    }
    std::string number(text_.substr(begin, end - begin));
    std::erase(number, '_');
    add(real ? Kind::kFloat : Kind::kInteger, {});
    Token& token = tokens_.back();
    if (real) {
      token.real = strtod_c(number.c_str(), nullptr);
    } else {
      const char* last = number.data() + number.size();
      const auto result = std::from_chars(number.data(), last, token.integer, base);
      if (result.ec != std::errc() || result.ptr != last)
        wrong("found the number " + std::string(text_.substr(at_, end - at_)) + "; expected one of 64 bits");
    }
    at_ = end;
  }

  template <typename Digits>
  bool read_fraction(size_t* end, const Digits& digits) const {
    bool real = false;
    if (*end + 1 < text_.size() && text_[*end] == '.' && is_digit(text_[*end + 1])) {
      ++*end;
      digits();
      real = true;
    }
    if (*end < text_.size() && (text_[*end] | 0x20) == 'e') {
      size_t at = *end + 1;
      if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
      if (at < text_.size() && is_digit(text_[at])) {
        *end = at;
        digits();
        real = true;
      }
    }
    return real;
  }

  void read_string(char quote) {
    size_t i = at_ + 1;
    std::string out;
    while (i < text_.size() && text_[i] != quote) {
      if (text_[i] != '\\') {
        out += text_[i++];
      } else {
        i = read_escape(i + 1, &out);
      }
    }
    if (i >= text_.size()) wrong("a text is not closed; expected " + std::string(1, quote));
    add(Kind::kString, std::move(out));
    at_ = i + 1;
  }

  /// What \ and the character at i stand for, as in Python; gives the place after it.
  size_t read_escape(size_t i, std::string* out) {
    if (i >= text_.size()) return i;
    const char c = text_[i];
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      *out += kMeant[at];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c == 'N') outside(place_, line_at(at_), "escape \\N{…}");
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    size_t begin = i + 1;
    int base = 16;
    if (c >= '0' && c <= '7') {
      begin = i;
      base = 8;
      while (digits < 3 && i + digits < text_.size() && text_[i + digits] >= '0' && text_[i + digits] <= '7')
        ++digits;
    } else if (digits == 0) {
      *out += '\\';  // an escape that Python does not know stays
      return i;
    }
    uint32_t code = 0;
    const std::string_view number = text_.substr(begin, digits);
    const auto result = std::from_chars(number.data(), number.data() + number.size(), code, base);
    const bool whole = number.size() == digits && result.ptr == number.data() + digits;
    if (!whole || result.ec != std::errc() || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      wrong("found the escape \\" + std::string(text_.substr(i, digits + 1)) +
            "; expected that of a character");
    unicode::append_utf8(code, out);
    return begin + digits;
  }

  const std::string_view text_;
  const std::string& place_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  std::string open_;
  std::vector<Token> tokens_;
  mutable size_t counted_ = 0;
  mutable uint32_t line_ = 1;
};

}  // namespace

void malformed(const std::string& place, uint32_t line, const std::string& message) {
  fail(ErrorCode::kInvalidData, "{}:{}: {}", place, line, message);
}

void outside(const std::string& place, uint32_t line, const std::string& construct) {
  fail(
      ErrorCode::kUnsupported,
      "{}:{}: the {} is outside of the part of Jinja that templates may use here; --chat_template_path gives "
      "another template",
      place, line, construct);
}

std::vector<Token> tokenize(std::string_view source, const std::string& place) {
  check_utf8(source, place);
  const std::string text = with_line_ends(source);
  return Lexer(text, place).run();
}

}  // namespace lathe::templates
