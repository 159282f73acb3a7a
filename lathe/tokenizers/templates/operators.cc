// Arithmetic, comparisons and slices, with Python's rules.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lathe/text/text.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {
namespace {

const char* symbol_of(Operator op) {
  constexpr std::array<const char*, 15> kSymbols = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void unfit(Operator op, const Value& a, const Value& b) {
  need_defined(a);
  need_defined(b);
  fault("{} between a {} and a {}; expected values that it fits", symbol_of(op), type_name(a), type_name(b));
}

/// value: read after `overflows` has set it.
int64_t checked(bool overflows, const int64_t& value) {
  if (overflows) fault("an integer beyond 64 bits");
  return value;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fault("division by zero");
  if (b == -1) {
    int64_t out = 0;
    return checked(__builtin_sub_overflow(int64_t{0}, a, &out), out);
  }
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) fault("division by zero");
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double modulo(double a, double b) {
  if (b == 0) fault("division by zero");
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

double floor_divide(double a, double b) {
  const double r = modulo(a, b);
  if (std::isnan(r)) return r;
  const double quotient = (a - r) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fault("0 to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return exponent == 0 ? int64_t{1} : base;
  if (base == -1) return int64_t{exponent % 2 == 0 ? 1 : -1};
  int64_t out = 1;
  for (; exponent > 0; --exponent) out = checked(__builtin_mul_overflow(out, base, &out), out);
  return out;
}

Value of_integers(Operator op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Operator::kAdd:
      return checked(__builtin_add_overflow(a, b, &out), out);
    case Operator::kSubtract:
      return checked(__builtin_sub_overflow(a, b, &out), out);
    case Operator::kMultiply:
      return checked(__builtin_mul_overflow(a, b, &out), out);
    case Operator::kDivide:
      if (b == 0) fault("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    default:
      return power(a, b);
  }
}

Value of_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      if (b == 0) fault("division by zero");
      return a / b;
    case Operator::kFloorDivide:
      return floor_divide(a, b);
    case Operator::kModulo:
      return modulo(a, b);
    default:
      break;
  }
  if (a == 0 && b < 0) fault("0 to a negative power");
  const double out = std::pow(a, b);
  if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) fault("a power that is no real number");
  if (std::isinf(out) && !std::isinf(a) && !std::isinf(b)) fault("a power beyond the largest number");
  return out;
}

Value repeated(const Value& v, int64_t times, Meter& meter) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (const Text* text = as_text(v)) {
    meter.check_size(text->bytes.size(), n);
    std::string out;
    if (!text->bytes.empty())
      for (size_t i = 0; i < n; ++i) out += text->bytes;
    return make_text(std::move(out), meter, text->safe);
  }
  const List& list = *as_list(v);
  Values out;
  for (size_t i = 0; i < n && !list.items.empty(); ++i) {
    meter.charge(2 * list.items.size());
    out.insert(out.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(out), meter, list.kind);
}

bool is_sequence(const Value& v) {
  const List* list = as_list(v);
  return list != nullptr && (list->kind == List::Kind::kList || list->kind == List::Kind::kTuple);
}

Value add(const Value& a, const Value& b, Meter& meter) {
  const Text *left = as_text(a), *right = as_text(b);
  if (left != nullptr && right != nullptr) {
    const bool safe = left->safe || right->safe;
    const auto side = [&](const Text& t) { return safe && !t.safe ? escaped(t.bytes) : t.bytes; };
    return make_text(side(*left) + side(*right), meter, safe);
  }
  if (!is_sequence(a) || !is_sequence(b) || as_list(a)->kind != as_list(b)->kind) unfit(Operator::kAdd, a, b);
  Values out = as_list(a)->items;
  out.insert(out.end(), as_list(b)->items.begin(), as_list(b)->items.end());
  return make_list(std::move(out), meter, as_list(a)->kind);
}

Value arithmetic(Operator op, const Value& a, const Value& b, Meter& meter) {
  if (is_number(a) && is_number(b)) {
    int64_t x = 0, y = 0;
    const int64_t *left = as_integer(a, &x), *right = as_integer(b, &y);
    if (left != nullptr && right != nullptr) return of_integers(op, *left, *right);
    return of_reals(op, as_double(a), as_double(b));
  }
  if (op == Operator::kAdd) return add(a, b, meter);
  if (op == Operator::kModulo && as_text(a) != nullptr)
    return make_text(percent_format(as_text(a)->bytes, b, meter), meter);
  if (op == Operator::kMultiply) {
    int64_t storage = 0;
    const auto many = [](const Value& v) { return as_text(v) != nullptr || is_sequence(v); };
    if (const int64_t* n = as_integer(b, &storage); n != nullptr && many(a)) return repeated(a, *n, meter);
    if (const int64_t* n = as_integer(a, &storage); n != nullptr && many(b)) return repeated(b, *n, meter);
  }
  unfit(op, a, b);
}

struct Range {
  int64_t begin, end, step;
};

/// As Python's slice.indices(n).
Range range_of(const Value& begin, const Value& end, const Value& step, int64_t n) {
  const auto bound = [](const Value& v, int64_t absent) {
    if (is_none(v)) return absent;
    need_defined(v);
    int64_t storage = 0;
    const int64_t* p = as_integer(v, &storage);
    if (p == nullptr) fault("a slice: found a {}, expected integers", type_name(v));
    return *p;
  };
  Range out{};
  out.step = std::max<int64_t>(bound(step, 1), -std::numeric_limits<int64_t>::max());
  if (out.step == 0) fault("a slice: found the step 0, expected another");
  const bool down = out.step < 0;
  const int64_t low = down ? -1 : 0, high = down ? n - 1 : n;
  const auto place = [&](const Value& v, int64_t absent) {
    if (is_none(v)) return absent;
    int64_t at = bound(v, 0);
    if (at < 0) at += n;
    return std::clamp(at, low, high);
  };
  out.begin = place(begin, down ? high : low);
  out.end = place(end, down ? low : high);
  return out;
}

}  // namespace

Value apply(Operator op, const Value& a, const Value& b, Meter& meter) {
  switch (op) {
    case Operator::kEqual:
      return equal(a, b, meter);
    case Operator::kUnequal:
      return !equal(a, b, meter);
    case Operator::kIn:
      return contains(b, a, meter);
    case Operator::kNotIn:
      return !contains(b, a, meter);
    case Operator::kLess:
    case Operator::kLessEqual:
    case Operator::kGreater:
    case Operator::kGreaterEqual: {
      bool unordered = false;
      const int order = compare(a, b, meter, &unordered);
      if (unordered) return false;
      if (op == Operator::kLess) return order < 0;
      if (op == Operator::kLessEqual) return order <= 0;
      return op == Operator::kGreater ? order > 0 : order >= 0;
    }
    default:
      return arithmetic(op, a, b, meter);
  }
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Meter& meter) {
  need_defined(value);
  const Text* text = as_text(value);
  const List* list = as_list(value);
  const bool sliceable = text != nullptr || (list != nullptr && list->kind <= List::Kind::kRange);
  if (!sliceable) fault("a slice of a {}; expected a list or text", type_name(value));
  const Range r = range_of(begin, end, step, length_of(value));
  if (text != nullptr && r.step == 1) {
    meter.charge_text(text->bytes.size());
    const auto from = static_cast<size_t>(r.begin), to = static_cast<size_t>(std::max(r.begin, r.end));
    return make_text(std::string(slice_code_points(text->bytes, from, to)), meter, text->safe);
  }
  std::vector<char32_t> characters;
  if (text != nullptr) {
    meter.charge(text->bytes.size());
    characters = decode_utf8(text->bytes);
  }
  Values items;
  std::string bytes;
  for (int64_t i = r.begin; r.step > 0 ? i < r.end : i > r.end;) {
    meter.charge();
    if (text != nullptr) {
      unicode::append_utf8(static_cast<uint32_t>(characters[static_cast<size_t>(i)]), &bytes);
    } else {
      items.push_back(list->items[static_cast<size_t>(i)]);
    }
    if (__builtin_add_overflow(i, r.step, &i)) break;
  }
  if (text != nullptr) return make_text(std::move(bytes), meter, text->safe);
  return make_list(std::move(items), meter, list->kind);
}

}  // namespace lathe::templates
