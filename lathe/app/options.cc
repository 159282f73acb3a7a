#include "lathe/app/options.h"

#include <algorithm>
#include <charconv>

#include "lathe/app/argument_parser.h"
#include "lathe/core/error.h"
#include "lathe/data/text.h"
#include "lathe/io/gzip.h"

namespace lathe {

Options parse_options(const std::vector<std::string>& args, const std::vector<std::string>& with_value,
                      const std::vector<std::string>& switches, const std::string& usage) {
  const auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  Options options;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("--", 0) != 0 || args[i] == "--") {
      if (args[i] != "--") options.rest.push_back(args[i]);
      continue;
    }
    const size_t equals = args[i].find('=');
    std::string flag = args[i].substr(0, equals);
    std::replace(flag.begin() + 2, flag.end(), '-', '_');
    if (among(switches, flag)) {
      options.values[flag] = "";
    } else if (!among(with_value, flag)) {
      std::vector<std::string_view> names(with_value.begin(), with_value.end());
      names.insert(names.end(), switches.begin(), switches.end());
      const auto near = nearest_names(flag, names);
      fail(ErrorCode::kUsage, "unknown flag {}{}\n{}", flag,
           near.empty() ? "" : "; did you mean " + near[0] + "?", usage);
    } else if (equals != std::string::npos) {
      options.values[flag] = args[i].substr(equals + 1);
    } else if (++i < args.size()) {
      options.values[flag] = args[i];
    } else {
      fail(ErrorCode::kUsage, "{} wants a value\n{}", flag, usage);
    }
  }
  return options;
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_text(real_file_system(), path);
  check_utf8(text, path);
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
  if (error != std::errc() || end != text.data() + text.size() || value < low)
    fail(ErrorCode::kUsage, "{}: found {}, wants a whole number of at least {}", flag, text, low);
  return value;
}

}  // namespace lathe
