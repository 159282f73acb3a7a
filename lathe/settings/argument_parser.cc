#include "lathe/settings/argument_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

/// "<hub_token>"; transformers writes <HUB_TOKEN>, whether there is one or not.
bool is_hidden_secret(const std::string& key, const json& value) {
  if (!value.is_string()) return false;
  auto text = value.get<std::string>();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == fmt::format("<{}>", key);
}

/// The value as this field takes it: transformers writes the words of --debug, and before 5 of --fsdp, as
/// lists.
json from_python(const FieldInfo& info, const json& value) {
  const auto is_text = [](const json& item) { return item.is_string(); };
  if (info.kind != Kind::kText || info.support() == Support::kWorks || !value.is_array() ||
      !std::all_of(value.begin(), value.end(), is_text))
    return info.from_boolean(value);
  if (value.empty()) return info.default_value;
  return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), " "));
}

/// What a name on the command line stands for: a field, the "no_" of one, or an old name.
struct Option {
  std::string name;
  const BoundField* field = nullptr;
  bool negated = false;
  const OldName* old = nullptr;

  Kind kind() const { return old != nullptr ? old->kind : field->info->kind; }
};

std::string normalised(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_number(const std::string& token) { return parse_double(token).has_value(); }

/// argparse's rule: whatever starts with a dash and is no number, and has no space before its "=", is a flag.
bool is_flag(const std::string& token) {
  return token.size() > 1 && token[0] == '-' && !is_number(token) &&
         token.substr(0, token.find('=')).find(' ') == std::string::npos;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

class Parser {
 public:
  Parser(const std::vector<BoundField>& fields, Words words) : fields_(fields), words_(words) {
    for (const auto& field : fields) {
      const std::string name(field.info->name);
      options_.push_back({name, &field});
      if (field.info->negatable()) options_.push_back({"no_" + name, &field, true});
    }
    if (!script()) return;
    for (const auto& old : old_names()) old_options_.push_back({std::string(old.name), nullptr, false, &old});
  }

  ParsedArguments run(const std::vector<std::string>& args) {
    size_t i = 0;
    if (script() && args.size() == 1 && args[0].ends_with(".json") && !is_flag(args[0])) {
      read_config(args[0]);
      i = 1;
    }
    for (bool flags = true; i < args.size();) {
      if (words_ == Words::kAny && flags && args[i] == "--") {
        flags = false;
        ++i;
      } else if (flags && begins_flag(args[i])) {
        take_flag(args, i);
      } else if (words_ == Words::kAny) {
        result_.words.push_back(args[i++]);
      } else if (words_ == Words::kCommand) {
        result_.words.assign(args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
        break;
      } else {
        fail(ErrorCode::kUsage, "found '{}', expected a flag such as --{} (a flag takes one value)", args[i],
             fields_.empty() ? "help" : fields_[0].info->name);
      }
    }
    for (const auto& [option, value] : winning_) apply_old(*option->old, value);
    return std::move(result_);
  }

 private:
  bool script() const { return words_ == Words::kScript; }

  bool begins_flag(const std::string& token) const {
    return token.starts_with("--") || token == "-h" || (words_ == Words::kCommand && token.starts_with("-"));
  }

  void take_flag(const std::vector<std::string>& args, size_t& i) {
    const std::string& token = args[i++];
    if (token == "-h" || token == "--help") {
      result_.help = true;
      result_.help_all = i < args.size() && args[i] == "all";
      i += result_.help_all;
      return;
    }
    const size_t equals = token.find('=');
    const Option& option = find(token.substr(0, equals));
    std::vector<std::string> values;
    if (equals != std::string::npos) {
      values.push_back(token.substr(equals + 1));
      if (option.negated) fail(ErrorCode::kUsage, "--{}: found a value, expected none", option.name);
      if (!script() && option.kind() == Kind::kBool)
        fail(ErrorCode::kUsage, "{}: a switch takes no value; leave it out to have it off", token);
    } else if (!script()) {
      if (option.kind() != Kind::kBool && i < args.size()) values.push_back(args[i++]);
    } else {
      const size_t most = option.negated ? 0 : option.kind() == Kind::kList ? args.size() : 1;
      while (i < args.size() && values.size() < most && !is_flag(args[i])) values.push_back(args[i++]);
    }
    apply(option, value_of(option, values));
  }

  static json value_of(const Option& option, const std::vector<std::string>& values) {
    const bool alone = option.kind() == Kind::kBool ||
                       (option.old == nullptr && !option.field->info->rules.booleans.empty());
    if (alone && values.empty()) return !option.negated;
    if (option.old != nullptr && option.old->switches && values.empty()) return "true";
    if (values.empty()) {
      fail(ErrorCode::kUsage, "--{}: found no value, expected one ({})", option.name, name_of(option.kind()));
    }
    if (option.kind() == Kind::kList) return values;
    try {
      return value_from_text(option.name, option.kind(), values[0]);
    } catch (const Error&) {
      const bool refused = option.old == nullptr && option.field->info->support() == Support::kNotYet;
      if (!refused) throw;
      return values[0];  // that there is no such flag yet says more than how its value is written
    }
  }

  void apply(const Option& option, const json& value) {
    if (option.old == nullptr) {
      result_.given.insert(option.field->info->name);
      if (!script()) check_value(*option.field->info, value);
      option.field->set(option.field->info->from_boolean(value));
    } else if (option.old->wins) {
      winning_.emplace_back(&option, value);
    } else {
      apply_old(*option.old, value);
    }
  }

  void apply_old(const OldName& old, const json& value) {
    if (old.to.empty()) {
      if (value == old.default_value || (value == false && old.default_value.is_null())) return;
      if (old.note.empty()) {
        fail(ErrorCode::kUsage,
             "--{}: found {}, which is not supported; leave this flag of older versions out", old.name,
             python_json(value, -1));
      }
      result_.notices.push_back(fmt::format("--{} changes nothing here: {}", old.name, old.note));
      return;
    }
    const auto target =
        std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.info->name == old.to; });
    if (target == fields_.end())
      fail(ErrorCode::kUsage, "--{}: --{} is no flag of this command", old.name, old.to);
    if (old.switches && (value == "true" || value == "True" || value == "false" || value == "False")) return;
    const bool fixed = !old.when_true.is_null();
    if (fixed && value == false) return;
    target->set(fixed ? old.when_true : value);
    result_.notices.push_back(fmt::format("--{} is an old name: taken as --{} {}{}{}", old.name, old.to,
                                          value_text(*target->info, target->get()),
                                          old.note.empty() ? "" : "; ", old.note));
    try {
      check_field(*target);
    } catch (const Error& e) {
      fail(e.code(), "--{}, an old name of {}", old.name, e.what());
    }
  }

  /// flag: as it was given, "--max-steps" or "-n".
  const Option& find(const std::string& flag) const {
    const bool is_long = flag.starts_with("--");
    const std::string name = is_long ? normalised(flag.substr(2)) : "";
    if (!is_long && flag.size() > 1)
      for (const auto& option : options_)
        if (flag.substr(1) == option.field->info->rules.letter) return option;
    for (const auto* options : {&options_, &old_options_}) {
      for (const auto& option : *options) {
        if (option.name == name) return option;
      }
    }
    for (const auto* options : {&options_, &old_options_}) {
      if (const Option* option = find_prefix(*options, name)) return *option;
    }
    unknown(is_long ? "--" + name : flag, "flag", name);
  }

  /// The one option that starts with `name`.  Lathe's own fields stand back, so that what is unique with
  /// Hugging Face is so here.
  static const Option* find_prefix(const std::vector<Option>& options, const std::string& name) {
    std::vector<const Option*> found, own;
    for (const auto& option : options) {
      if (name.empty() || !option.name.starts_with(name)) continue;
      (option.old == nullptr && option.field->info->grade == Grade::kLathe ? own : found).push_back(&option);
    }
    if (found.empty()) found = own;
    if (found.size() <= 1) return found.empty() ? nullptr : found[0];
    std::vector<std::string> names;
    for (const auto* option : found) names.push_back("--" + option->name);
    fail(ErrorCode::kUsage, "--{}: could be any of {}; write out one of them", name, fmt::join(names, ", "));
  }

  [[noreturn]] void unknown(const std::string& found, std::string_view what, const std::string& name) const {
    std::vector<std::string> near;
    for (const auto* options : {&options_, &old_options_}) {
      std::vector<std::string_view> names;
      for (const auto& option : *options)
        if (what != "key" || !option.negated) names.push_back(option.name);
      if (near.empty()) near = nearest_names(name, names);
    }
    if (near.empty()) fail(ErrorCode::kUsage, "{}: unknown {}; --help lists all", found, what);
    fail(ErrorCode::kUsage, "{}: unknown {}; did you mean --{}?", found, what, fmt::join(near, " or --"));
  }

  void read_config(const std::string& path) {
    Result<std::string> text = real_file_system().read(path);
    if (!text.ok())
      fail(ErrorCode::kUsage, "{}; expected a JSON file with settings", text.status().message());
    json config;
    try {
      config = parse_python_json(text.value(), path);
    } catch (const Error& e) {
      fail(ErrorCode::kUsage, "{}", e.what());
    }
    if (!config.is_object())
      fail(ErrorCode::kUsage, "{}: found a JSON {}, expected an object", path, config.type_name());
    for (const auto& [key, value] : config.items()) {
      const bool unused = key == "hub_token" && config.value("push_to_hub", json()) != true;
      if (!unused || !is_hidden_secret(key, value)) set_from_config(path, key, value);
    }
  }

  void set_from_config(const std::string& path, const std::string& key, const json& value) {
    for (const auto* options : {&options_, &old_options_}) {
      for (const auto& option : *options) {
        if (option.name != key || option.negated) continue;
        if (key.ends_with("token") && is_hidden_secret(key, value)) {
          if (option.field != nullptr && option.field->info->support() == Support::kWorks)
            result_.notices.push_back(fmt::format(
                "{}: {} was left out where these settings were written; --{} gives it", path, key, key));
          return;
        }
        const bool optional =
            option.old != nullptr ? option.old->default_value.is_null() : option.field->info->optional;
        json typed;
        if (option.old != nullptr && option.old->switches && value.is_boolean()) return;
        try {
          typed = value_from_json(key, option.kind(), optional,
                                  option.old == nullptr ? from_python(*option.field->info, value) : value);
        } catch (const Error& e) {
          fail(ErrorCode::kUsage, "{}: {}", path, e.what());
        }
        if (option.old == nullptr || typed != option.old->default_value) apply(option, typed);
        return;
      }
    }
    unknown(fmt::format("{}: '{}'", path, key), "key", key);
  }

  const std::vector<BoundField>& fields_;
  Words words_;
  std::vector<Option> options_, old_options_;
  std::vector<std::pair<const Option*, json>> winning_;
  ParsedArguments result_;
};

}  // namespace

ParsedArguments parse_arguments(const std::vector<BoundField>& fields, const std::vector<std::string>& args,
                                Words words) {
  return Parser(fields, words).run(args);
}

std::vector<std::string> read_arguments_file(const std::string& path) {
  if (!real_file_system().exists(path) || real_file_system().is_directory(path)) return {};
  std::istringstream text(real_file_system().read(path).value());
  return {std::istream_iterator<std::string>(text), std::istream_iterator<std::string>()};
}

std::vector<std::string> nearest_names(std::string_view text, const std::vector<std::string_view>& names) {
  size_t least = std::max<size_t>(2, text.size() / 4) + 1;
  std::vector<std::string> nearest, containing;
  for (const auto name : names) {
    const size_t distance = edit_distance(text, name);
    if (distance < least) nearest = {std::string(name)};
    least = std::min(least, distance);
    if (text.size() > 3 && name.find(text) != std::string_view::npos) containing.emplace_back(name);
  }
  if (!nearest.empty() || containing.size() > 3) return nearest;
  return containing;
}

}  // namespace lathe
