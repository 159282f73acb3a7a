#include "lathe/settings/argument_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

std::optional<bool> parse_bool(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto* yes : {"yes", "true", "t", "y", "1"}) {
    if (text == yes) return true;
  }
  for (const auto* no : {"no", "false", "f", "n", "0"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> parse_int(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Strings inside a dict given on the command line become what they look like, as Hugging Face converts them.
json typed(const json& value) {
  if (value.is_object()) {
    json out = json::object();
    for (const auto& [key, item] : value.items()) out[key] = typed(item);
    return out;
  }
  if (!value.is_string()) return value;
  const auto text = value.get<std::string>();
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string::npos) {
    const auto flag = text.size() >= 4 ? parse_bool(text) : std::nullopt;  // the words true and false only
    return flag ? json(*flag) : value;
  }
  if (const auto whole = parse_int(text)) return *whole;
  const auto number = parse_double(text);
  return number ? json(*number) : value;
}

json dict_from_text(std::string_view flag, const std::string& text) {
  std::string source = text, from = fmt::format("--{}", flag);
  if (!text.starts_with('{')) {
    Result<std::string> content = real_file_system().read(text);
    if (content.status().code() == ErrorCode::kNotFound)
      fail(ErrorCode::kUsage,
           "--{}: found '{}', expected JSON text such as '{{\"key\": 1}}' or the path of a JSON file", flag,
           text);
    if (!content.ok()) fail(ErrorCode::kUsage, "--{}: {}", flag, content.status().message());
    source = content.value();
    from = text;
  }
  json value;
  try {
    value = parse_python_json(source, from);
  } catch (const Error& e) {
    fail(ErrorCode::kUsage, "--{}: {}", flag, e.what());
  }
  if (!value.is_object())
    fail(ErrorCode::kUsage, "--{}: found {}, expected a JSON object", flag, value.dump());
  return typed(value);
}

/// Of each kind, in their order: its name, how help shows a value, what a message asks for.
struct KindWords {
  std::string_view name, value, wanted;
};
constexpr KindWords kKinds[] = {{"bool", "[BOOL]", "true or false"}, {"int", "INT", "a whole number"},
                                {"float", "FLOAT", "a number"},      {"str", "TEXT", "a text"},
                                {"list", "TEXT", "a list of texts"}, {"dict", "JSON", "a JSON object"}};

const KindWords& words_of(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

[[noreturn]] void wrong_type(std::string_view flag, Kind kind, std::string_view found) {
  fail(ErrorCode::kUsage, "--{}: found {}, expected {}", flag, found, words_of(kind).wanted);
}

std::string joined(const std::vector<std::string_view>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

bool has(const std::vector<std::string_view>& items, std::string_view item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

void check_choice(const FieldInfo& info, const std::string& value) {
  const FieldRules& rules = info.rules;
  if (rules.others || rules.choices.empty() || has(rules.choices, value)) return;
  if (has(rules.later, value)) {
    fail(ErrorCode::kUsage, "--{}: '{}' is not there yet; choose from {}{}", info.name, value,
         joined(rules.choices), rules.reason.empty() ? "" : fmt::format(" ({})", rules.reason));
  }
  const bool parted = info.kind == Kind::kList && value.find(',') != std::string::npos;
  fail(ErrorCode::kUsage, "--{}: found '{}', expected one of {}{}", info.name, value, joined(rules.choices),
       parted ? "; several are parted by blanks" : "");
}

void check_range(const FieldInfo& info, const json& value) {
  const FieldRules& rules = info.rules;
  const double x = value.get<double>();
  const bool above = rules.below_high ? x < rules.high : x <= rules.high;
  if (x >= rules.low && above) return;
  const std::string found = value_text(info, value);
  const std::string high = fmt::format("{} {}", rules.below_high ? "below" : "at most", rules.high);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (rules.low > -kInf && rules.high < kInf) {
    fail(ErrorCode::kUsage, "--{}: found {}, expected at least {} and {}", info.name, found, rules.low, high);
  }
  if (rules.low > -kInf)
    fail(ErrorCode::kUsage, "--{}: found {}, expected at least {}", info.name, found, rules.low);
  fail(ErrorCode::kUsage, "--{}: found {}, expected {}", info.name, found,
       rules.high < kInf ? high : "a number");
}

}  // namespace

const FieldInfo& row_of(std::string_view name) {
  for (const auto& field : training_fields())
    if (field.info.name == name) return field.info;
  for (const auto& field : glue_fields())
    if (field.info.name == name) return field.info;
  fail(ErrorCode::kInternal, "--{}: no table has such a row", name);
}

FieldInfo shared_row(std::string_view name, std::string_view help) {
  FieldInfo info = row_of(name);
  info.grade = Grade::kLathe;
  info.group = {};
  info.rules.first = false;
  info.rules.others = true;
  if (!help.empty()) info.help = help;
  return info;
}

int whole_number(const std::string& flag, const std::string& text, int low) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    fail(ErrorCode::kUsage, "{}: found {}, expected a whole number from {} to {}", flag, text, low,
         std::numeric_limits<int>::max());
  if (error != std::errc() || end != text.data() + text.size() || value < low)
    fail(ErrorCode::kUsage, "{}: found {}, expected a whole number of at least {}", flag, text, low);
  return value;
}

Support FieldInfo::support() const {
  if (rules.support) return *rules.support;
  return grade == Grade::kMust || grade == Grade::kLathe ? Support::kWorks : Support::kNotYet;
}

json FieldInfo::from_boolean(const json& value) const {
  if (rules.booleans.empty()) return value;
  std::optional<bool> flag;
  if (value.is_boolean()) flag = value.get<bool>();
  if (value.is_string()) flag = parse_bool(value.get<std::string>());
  return flag ? json(rules.booleans.at(*flag ? 1 : 0)) : value;
}

json value_from_text(std::string_view flag, Kind kind, const std::string& text) {
  const std::string found = "'" + text + "'";
  switch (kind) {
    case Kind::kBool:
      if (const auto value = parse_bool(text)) return *value;
      wrong_type(flag, kind, found);
    case Kind::kInt:
      if (const auto value = parse_int(text)) return *value;
      wrong_type(flag, kind, found);
    case Kind::kFloat:
      if (const auto value = parse_double(text)) return *value;
      wrong_type(flag, kind, found);
    case Kind::kText:
      return text;
    case Kind::kList:
      return json::array({text});
    case Kind::kDict:
      return dict_from_text(flag, text);
  }
  return {};
}

json value_from_json(std::string_view flag, Kind kind, bool optional, const json& value) {
  if (value.is_null() && optional) return value;
  switch (kind) {
    case Kind::kBool:
      if (value.is_boolean()) return value;
      break;
    case Kind::kInt:
      if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) break;
      if (value.is_number_integer()) return value.get<int64_t>();
      break;
    case Kind::kFloat:
      if (value.is_number()) return value.get<double>();
      break;
    case Kind::kText:
      if (value.is_string()) return value;
      break;
    case Kind::kList: {
      if (value.is_string()) return json::array({value});
      const auto text = [](const json& item) { return item.is_string(); };
      if (value.is_array() && std::all_of(value.begin(), value.end(), text)) return value;
      break;
    }
    case Kind::kDict:
      if (value.is_object()) return value;
      if (value.is_string()) return dict_from_text(flag, value.get<std::string>());
      break;
  }
  wrong_type(flag, kind, python_json(value, -1));
}

void check_value(const FieldInfo& info, const json& value) {
  if (value.is_null()) return;
  if (info.kind == Kind::kText) check_choice(info, value.get<std::string>());
  if (info.kind == Kind::kList) {
    for (const auto& item : value) check_choice(info, item.get<std::string>());
  }
  if (info.kind == Kind::kInt || info.kind == Kind::kFloat) check_range(info, value);
}

std::optional<std::string> check_field(const BoundField& field) {
  const FieldInfo& info = *field.info;
  const json value = field.get();
  if (info.rules.required && value == info.default_value) {
    fail(ErrorCode::kUsage, "--{}: missing, expected a value ({})", info.name, info.help);
  }
  const bool unset = info.kind == Kind::kBool && info.default_value.is_null() && value == false;
  if (value == info.default_value || unset) return std::nullopt;
  check_value(info, value);
  const std::string_view reason = info.rules.reason;
  switch (info.support()) {
    case Support::kWorks:
      return std::nullopt;
    case Support::kNoEffect:
      return fmt::format("--{} changes nothing here: {}", info.name, reason);
    case Support::kNotYet:
      fail(ErrorCode::kUsage, "--{}: found {}, expected its default {}: {}{}", info.name,
           value_text(info, value), value_text(info, info.default_value),
           info.grade == Grade::kRejected ? "not supported" : "not there yet",
           reason.empty() ? "" : fmt::format(" ({})", reason));
  }
  return std::nullopt;
}

std::vector<std::string> check_fields(const std::vector<BoundField>& fields) {
  std::vector<std::string> notices;
  for (const auto& field : fields) {
    if (auto notice = check_field(field)) notices.push_back(std::move(*notice));
  }
  return notices;
}

std::string hidden_secret(const FieldInfo& info) { return fmt::format("<{}>", info.name); }

nlohmann::ordered_json to_json(const std::vector<BoundField>& fields) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& field : fields) {
    const FieldInfo& info = *field.info;
    if (info.rules.only_command) continue;
    json value = field.get();
    if (info.rules.whole && value.is_number_float()) {
      const auto x = value.get<double>();
      if (std::abs(x) < 1e15 && x == std::trunc(x)) value = static_cast<int64_t>(x);
    }
    if (info.rules.secret && !value.is_null()) value = hidden_secret(info);
    out[std::string(info.name)] = value;
  }
  return out;
}

std::string value_text(const FieldInfo& info, const json& value) {
  if (value.is_string() && info.rules.secret) return "(hidden)";
  if (value.is_string()) return value.get<std::string>().empty() ? "''" : value.get<std::string>();
  if (info.rules.whole && value.is_number_float()) return fmt::format("{}", value.get<double>());
  return python_repr(nlohmann::ordered_json(value));
}

std::string_view name_of(Kind kind) { return words_of(kind).name; }

std::string_view value_name(const FieldInfo& info) {
  return info.rules.value.empty() ? words_of(info.kind).value : info.rules.value;
}

std::string_view name_of(Grade grade) {
  constexpr std::string_view kNames[] = {"M", "S", "L", "R", "lathe"};
  return kNames[static_cast<size_t>(grade)];
}

}  // namespace lathe
