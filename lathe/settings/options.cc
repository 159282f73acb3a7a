#include "lathe/settings/options.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "lathe/core/error.h"
#include "lathe/io/gzip.h"
#include "lathe/settings/argument_parser.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/text/text.h"

namespace lathe {

bool Syntax::has(const std::string& flag) const {
  return std::any_of(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == flag; });
}

Flag device_flag() { return {"--device", "NAME", "", {kDeviceChoices.begin(), kDeviceChoices.end()}}; }

Options parse_options(const std::vector<std::string>& args, const Syntax& syntax) {
  std::vector<Flag> flags = syntax.flags;
  flags.push_back({"--help"});
  Options options;
  bool words_alone = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (words_alone || (!args[i].starts_with("--") && args[i] != "-h")) {
      options.rest.push_back(args[i]);
      continue;
    }
    if (args[i] == "--") {
      words_alone = true;
      continue;
    }
    const size_t equals = args[i].find('=');
    std::string name = args[i] == "-h" ? "--help" : args[i].substr(0, equals);
    std::replace(name.begin() + 2, name.end(), '-', '_');
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name; });
    if (flag == flags.end()) {
      std::vector<std::string_view> names;
      for (const Flag& known : flags) names.push_back(known.name);
      const auto near = nearest_names(name, names);
      fail(ErrorCode::kUsage, "unknown flag {}{}\n{}", name,
           near.empty() ? "" : "; did you mean " + near[0] + "?", syntax.usage);
    }
    if (flag->value.empty()) {
      if (equals != std::string::npos)
        fail(ErrorCode::kUsage, "{}: a switch without a value; leave it out to have it off\n{}", args[i],
             syntax.usage);
      options.values[name] = "";
    } else if (equals != std::string::npos) {
      options.values[name] = args[i].substr(equals + 1);
    } else if (++i < args.size()) {
      options.values[name] = args[i];
    } else {
      fail(ErrorCode::kUsage, "{} wants a value\n{}", name, syntax.usage);
    }
  }
  if (syntax.flags_alone && !options.rest.empty() && !options.has("--help"))
    fail(ErrorCode::kUsage, "found {}, wants flags alone\n{}", options.rest[0], syntax.usage);
  return options;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::string text = read_text(real_file_system(), path, kDataFileBytes);
  check_utf8(text, path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.empty()) fail(ErrorCode::kInvalidData, "{}: the file is empty, wants a text in each line", path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at - (end > at && text[end - 1] == '\r')));
    at = end + 1;
  }
  return lines;
}

int whole_number(const Options& options, const std::string& flag, int fallback, int low) {
  return options.has(flag) ? whole_number(flag, options.get(flag), low) : fallback;
}

int whole_number(const std::string& flag, const std::string& text, int low) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    fail(ErrorCode::kUsage, "{}: found {}, wants a whole number from {} to {}", flag, text, low,
         std::numeric_limits<int>::max());
  if (error != std::errc() || end != text.data() + text.size() || value < low)
    fail(ErrorCode::kUsage, "{}: found {}, wants a whole number of at least {}", flag, text, low);
  return value;
}

}  // namespace lathe
