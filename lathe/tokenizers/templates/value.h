#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/error.h"

namespace lathe::templates {

/// What goes wrong while a template runs; the machine adds file and line.
struct Fault {
  ErrorCode code;
  std::string message;
};

template <typename... Args>
[[noreturn]] void fault(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{ErrorCode::kInvalidData, fmt::format(format, std::forward<Args>(args)...)};
}

/// Counts the work of a rendering.  Faults where a limit is passed.
class Meter {
 public:
  Meter(int64_t steps, size_t text_bytes) : steps_(steps), left_(steps), text_bytes_(text_bytes) {}
  void charge(size_t units = 1);
  /// A text of so many bytes is made or read.
  void charge_text(size_t bytes);
  /// Faults if a text would have more bytes than one may.
  void check_size(size_t bytes) const;
  void check_size(size_t bytes, size_t times) const;

 private:
  int64_t steps_, left_;
  size_t text_bytes_;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  ///< what the error says if it is used: "'x' is undefined"
};
struct None {};
struct Text;
struct List;
struct Dict;
struct Callable;
struct Namespace;
struct Loop;

using Value = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                           std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                           std::shared_ptr<const Callable>, Namespace*, std::shared_ptr<const Loop>>;
using Values = std::vector<Value>;
using Pairs = std::vector<std::pair<Value, Value>>;

/// Values nest at most this deep: what walks them recurses.
constexpr int kMostNested = 100;

struct Text {
  std::string bytes;  ///< well-formed UTF-8
  bool safe = false;  ///< escaped when joined with one that is not, as Jinja's Markup
};

/// All that is iterable and no text, dict or undefined.
struct List {
  enum class Kind { kList, kTuple, kRange, kIterator, kKeys, kValues, kItems };
  Values items;
  Kind kind = Kind::kList;
  int depth = 1;
  mutable bool used_up = false;  ///< only of an iterator, which gives its items once
};

struct Dict {
  Pairs items;  ///< in order; keys differ
  int depth = 1;
  const Value* find(const Value& key, Meter& meter) const;
  const Value* find(std::string_view key, Meter& meter) const;
};

/// Only `set` changes it; the machine owns it.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};

/// `loop` of one iteration.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index0 = 0;
};

struct MacroNode;
struct Scope;
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};
class Machine;
using Function = Value (*)(Machine&, const Value& self, const Arguments&);

/// A function, a method with its object, or a macro with the scope that it was defined in.
struct Callable {
  std::string name;
  Function function = nullptr;  ///< null: a macro
  Value self;
  const MacroNode* macro = nullptr;
  Scope* scope = nullptr;
};

Value make_text(std::string bytes, Meter& meter, bool safe = false);
/// Faults if it nests too deep.
Value make_list(Values items, Meter& meter, List::Kind kind = List::Kind::kList);
/// Later pairs replace earlier ones of the same key.  Faults if a key is a list or dict.
Value make_dict(Pairs items, Meter& meter);
Value undefined(std::string why);
/// Of a context: strings are repaired, depth is limited.
Value from_json(const nlohmann::ordered_json& json, Meter& meter);

const Text* as_text(const Value& v);
const List* as_list(const Value& v);
const Dict* as_dict(const Value& v);
/// bool, int: as Python's int(); else null.
const int64_t* as_integer(const Value& v, int64_t* storage);
/// bool, int or float.
bool is_number(const Value& v);
double as_double(const Value& v);
bool is_undefined(const Value& v);
bool is_none(const Value& v);

/// As Python's type(v).__name__.
std::string type_name(const Value& v);
/// bool(v).
bool truth(const Value& v);
/// a == b.
bool equal(const Value& a, const Value& b, Meter& meter);
/// -1, 0 or 1; faults where Python's `<` does.  unordered: either is NaN.
int compare(const Value& a, const Value& b, Meter& meter, bool* unordered);
/// item in container.
bool contains(const Value& container, const Value& item, Meter& meter);
/// Where `what` is first in text from `at` on, or npos; in linear time, whatever the texts.
size_t find_text(std::string_view text, std::string_view what, size_t at = 0);
/// Where it is last.
size_t rfind_text(std::string_view text, std::string_view what, Meter& meter);
/// str(v) and repr(v).
std::string to_text(const Value& v, Meter& meter);
void append_repr(const Value& v, std::string* out, Meter& meter);
/// list(v); faults if it is not iterable.
Values iterate(const Value& v, Meter& meter);
/// len(v), or a fault.
int64_t length_of(const Value& v);
/// Faults if v is undefined: it was used in a way that needs a value.
void need_defined(const Value& v);

struct JsonForm {
  int indent = -1;  ///< < 0: one line
  std::string indent_text;
  std::string item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false, sort_keys = false;
};
/// json.dumps(v, …).
std::string to_json(const Value& v, const JsonForm& form, Meter& meter);

}  // namespace lathe::templates
