// Python's % of texts, and strftime.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/library.h"

namespace lathe::templates {
namespace {

constexpr int64_t kMostDigits = 100;  // after the point

struct Directive {
  bool left = false, zeros = false, plus = false, blank = false, alternate = false;
  int64_t width = 0, precision = -1;
  char kind = 's';
};

class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& arguments, Meter& meter)
      : format_(format), meter_(meter), dict_(as_dict(arguments)) {
    const List* list = as_list(arguments);
    tuple_ = list != nullptr && list->kind == List::Kind::kTuple;
    // Python asks for as many values as there are places only of what has no items by key.
    const bool by_key =
        dict_ != nullptr || is_undefined(arguments) || (list != nullptr && list->kind <= List::Kind::kRange);
    counts_ = tuple_ || !by_key;
    if (tuple_) {
      values_ = list->items;
    } else {
      values_ = {arguments};
    }
  }

  std::string run() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      if (c != '%') {
        out_ += c;
      } else {
        directive();
        meter_.check_size(out_.size());
      }
    }
    if (used_ < values_.size() && counts_) fault("%: found more values than the text has places for");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fault("%: the text ends in the middle of a place for a value");
    return format_[at_];
  }

  const Value& next() {
    if (used_ >= values_.size()) fault("%: found {} values, expected more", values_.size());
    return values_[used_++];
  }

  int64_t number() {
    if (peek() == '*') {
      ++at_;
      int64_t storage = 0;
      const int64_t* p = as_integer(next(), &storage);
      if (p == nullptr) fault("%: * needs an integer");
      return std::clamp<int64_t>(*p, -(int64_t{1} << 31), int64_t{1} << 31);
    }
    int64_t out = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      out = std::min<int64_t>(out * 10 + (peek() - '0'), int64_t{1} << 31);
    return out;
  }

  void directive() {
    const Value* chosen = nullptr;
    if (peek() == '(') {
      const size_t end = format_.find(')', at_);
      if (end == std::string_view::npos) fault("%: a name in ( is not closed");
      if (dict_ == nullptr) fault("%: a name needs a dict");
      const std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
      chosen = dict_->find(name, meter_);
      if (chosen == nullptr) fault("%: the dict has no '{}'", name);
      at_ = end + 1;
    }
    Directive d;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') {
        d.left = true;
      } else if (c == '0') {
        d.zeros = true;
      } else if (c == '+') {
        d.plus = true;
      } else if (c == ' ') {
        d.blank = true;
      } else if (c == '#') {
        d.alternate = true;
      } else {
        break;
      }
    }
    d.width = number();
    if (d.width < 0) d.left = true;
    d.width = std::abs(d.width);
    if (peek() == '.') {
      ++at_;
      d.precision = std::max<int64_t>(number(), 0);
    }
    d.kind = peek();
    ++at_;
    if (d.kind == '%') {
      out_ += '%';
      return;
    }
    const Value& value = chosen != nullptr ? *chosen : next();
    meter_.check_size(static_cast<size_t>(d.width));
    write(d, value);
  }

  void write(const Directive& d, const Value& value) {
    std::string sign, body;
    switch (d.kind) {
      case 's':
      case 'r':
        if (d.kind == 's') {
          body = to_text(value, meter_);
        } else {
          append_repr(value, &body, meter_);
        }
        if (d.precision >= 0) body = cut(body, d.precision);
        break;
      case 'c':
        body = to_text(value, meter_);
        if (as_text(value) == nullptr || unicode::length(body) != 1) fault("%c: expected one character");
        break;
      default:
        of_number(d, value, &sign, &body);
    }
    pad(d, sign, body);
  }

  static std::string cut(const std::string& text, int64_t most) {
    size_t at = 0;
    for (int64_t i = 0; i < most && at < text.size(); ++i) unicode::decode(text, &at);
    return text.substr(0, at);
  }

  void of_number(const Directive& d, const Value& value, std::string* sign, std::string* body) {
    need_defined(value);
    if (std::string_view("diuxXofFeEgG").find(d.kind) == std::string_view::npos)
      fault("%: found the kind '{}', expected s, r, c, d, i, u, x, X, o, f, e or g", d.kind);
    if (!is_number(value)) fault("%{}: found a {}, expected a number", d.kind, type_name(value));
    if (d.precision > kMostDigits) fault("%: found {} digits, expected at most {}", d.precision, kMostDigits);
    bool negative = false;
    if (std::string_view("diuxXo").find(d.kind) != std::string_view::npos) {
      const int64_t whole = integer(d, value);
      negative = whole < 0;
      const uint64_t size =
          negative ? uint64_t{0} - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
      *body = d.kind == 'x'   ? fmt::format("{:x}", size)
              : d.kind == 'X' ? fmt::format("{:X}", size)
              : d.kind == 'o' ? fmt::format("{:o}", size)
                              : fmt::format("{}", size);
      if (std::ssize(*body) < d.precision)
        body->insert(0, static_cast<size_t>(d.precision - std::ssize(*body)), '0');
      if (d.alternate && std::string_view("xXo").find(d.kind) != std::string_view::npos)
        *sign = std::string("0") + d.kind;
    } else {
      if (d.alternate) fault("%#{} is outside of the part of Jinja that templates may use here", d.kind);
      const double x = as_double(value);
      negative = std::signbit(x);
      const int digits = d.precision < 0 ? 6 : static_cast<int>(d.precision);
      *body = fmt::format(fmt::runtime(std::string("{:.{}") + d.kind + "}"), std::fabs(x), digits);
    }
    if (negative) {
      sign->insert(0, "-");
    } else if (d.plus || d.blank) {
      sign->insert(0, d.plus ? "+" : " ");
    }
  }

  static int64_t integer(const Directive& d, const Value& value) {
    int64_t storage = 0;
    if (const int64_t* p = as_integer(value, &storage)) return *p;
    const double x = std::get<double>(value);
    if (d.kind == 'x' || d.kind == 'X' || d.kind == 'o')
      fault("%{}: found a float, expected an integer", d.kind);
    if (!(std::fabs(x) < 0x1p63)) fault("%d: found a number beyond 64 bits");
    return static_cast<int64_t>(x);
  }

  void pad(const Directive& d, const std::string& sign, const std::string& body) {
    const auto size = static_cast<int64_t>(unicode::length(sign) + unicode::length(body));
    const std::string fill(static_cast<size_t>(std::max<int64_t>(d.width - size, 0)), ' ');
    const bool numeric = std::string_view("srac").find(d.kind) == std::string_view::npos;
    meter_.charge_text(sign.size() + body.size() + fill.size());
    if (d.left) {
      out_ += sign + body + fill;
    } else if (d.zeros && numeric) {
      out_ += sign + std::string(fill.size(), '0') + body;
    } else {
      out_ += fill + sign + body;
    }
  }

  std::string_view format_;
  Meter& meter_;
  const Dict* dict_;
  bool tuple_ = false, counts_ = true;
  Values values_;
  size_t used_ = 0, at_ = 0;
  std::string out_;
};

}  // namespace

std::string percent_format(std::string_view format, const Value& arguments, Meter& meter) {
  meter.charge_text(format.size());
  return PercentFormat(format, arguments, meter).run();
}

std::string format_time(std::string_view format, const std::tm& t) {
  constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                "Thursday", "Friday", "Saturday"};
  constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};
  const std::string day = kDays[static_cast<size_t>(t.tm_wday)],
                    month = kMonths[static_cast<size_t>(t.tm_mon)];
  const int year = t.tm_year + 1900, hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool bare = format[i + 1] == '-' && i + 2 < format.size();
    const char kind = format[i += bare ? 2 : 1];
    const auto number = [&](int value, int width) {
      out += bare ? std::to_string(value) : fmt::format("{:0{}}", value, width);
    };
    switch (kind) {
      case 'Y':
        number(year, 4);
        break;
      case 'y':
        number(year % 100, 2);
        break;
      case 'm':
        number(t.tm_mon + 1, 2);
        break;
      case 'd':
        number(t.tm_mday, 2);
        break;
      case 'H':
        number(t.tm_hour, 2);
        break;
      case 'I':
        number(hour12, 2);
        break;
      case 'M':
        number(t.tm_min, 2);
        break;
      case 'S':
        number(t.tm_sec, 2);
        break;
      case 'j':
        number(t.tm_yday + 1, 3);
        break;
      case 'e':
        out += bare ? std::to_string(t.tm_mday) : fmt::format("{:2}", t.tm_mday);
        break;
      case 'B':
        out += month;
        break;
      case 'b':
      case 'h':
        out += month.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'p':
        out += t.tm_hour < 12 ? "AM" : "PM";
        break;
      case 'w':
        out += std::to_string(t.tm_wday);
        break;
      case 'u':
        out += std::to_string(t.tm_wday == 0 ? 7 : t.tm_wday);
        break;
      case 'F':
        out += format_time("%Y-%m-%d", t);
        break;
      case 'T':
        out += format_time("%H:%M:%S", t);
        break;
      case 'R':
        out += format_time("%H:%M", t);
        break;
      case 'D':
      case 'x':
        out += format_time("%m/%d/%y", t);
        break;
      case 'X':
        out += format_time("%H:%M:%S", t);
        break;
      case 'c':
        out += format_time("%a %b %e %H:%M:%S %Y", t);
        break;
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'z':
      case 'Z':
        break;  // a time without a zone
      case '%':
        out += '%';
        break;
      default:
        fault("strftime_now: %{} is outside of the part of strftime that templates may use here", kind);
    }
  }
  return out;
}

}  // namespace lathe::templates
