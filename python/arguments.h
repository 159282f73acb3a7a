#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/settings/argument_parser.h"
#include "lathe/text/python_format.h"

namespace lathe {

/// TrainingArguments from words of the command line, checked.
struct Arguments {
  explicit Arguments(const std::vector<std::string>& words) {
    ParsedArguments parsed = parse_arguments(bind(values), words);
    notices = std::move(parsed.notices);
    if (const auto notice = derive_head_rate(values, parsed.given)) notices.push_back(*notice);
    for (const std::string& notice : validate(values)) notices.push_back(notice);
  }
  /// Names are whole here: no prefix stands for a flag.  Errors: kUsage.
  static void check_name(const std::string& name) {
    std::vector<std::string_view> names;
    for (const auto& field : training_fields()) names.push_back(field.info.name);
    for (const OldName& old : old_names()) names.push_back(old.name);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const auto near = nearest_names(name, names);
    fail(ErrorCode::kUsage, "TrainingArguments: unknown argument {}{}", name,
         near.empty() ? "" : fmt::format("; did you mean {}?", near[0]));
  }
  std::string json() { return python_json(to_json(bind(values)), -1); }

  TrainingArguments values;
  std::vector<std::string> notices;
};

}  // namespace lathe
