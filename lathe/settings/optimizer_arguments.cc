// --optim and --optim_args.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lathe/core/error.h"
#include "lathe/settings/argument_table.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

/// "momentum=0.9, nesterov=true" by name.
std::map<std::string, std::string> settings_of(const TrainingArguments& args) {
  std::map<std::string, std::string> settings;
  std::string text = args.optim_args.value_or("");
  std::erase(text, ' ');
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string::npos)
      fail(ErrorCode::kUsage, "--optim_args: found '{}', expected name=value, several with commas between",
           item);
    settings[item.substr(0, equals)] = item.substr(equals + 1);
    begin = end + 1;
  }
  return settings;
}

SgdOptions sgd_of(const TrainingArguments& args) {
  SgdOptions sgd{.weight_decay = args.weight_decay};
  for (const auto& [name, value] : settings_of(args)) {
    const std::string flag = "optim_args: " + name;
    if (name == "momentum" || name == "dampening") {
      const double number = value_from_text(flag, Kind::kFloat, value);
      if (!(number >= 0)) fail(ErrorCode::kUsage, "--{}: found {}, expected at least 0", flag, value);
      (name == "momentum" ? sgd.momentum : sgd.dampening) = number;
    } else if (name == "nesterov") {
      sgd.nesterov = value_from_text(flag, Kind::kBool, value);
    } else if (name == "weight_decay") {
      fail(ErrorCode::kUsage, "--{}: found {}, expected --weight_decay, which says it", flag, value);
    } else {
      fail(ErrorCode::kUsage, "--optim_args: found '{}', expected momentum, dampening or nesterov for sgd",
           name);
    }
  }
  if (sgd.nesterov && (sgd.momentum == 0 || sgd.dampening != 0))
    fail(ErrorCode::kUsage,
         "--optim_args: nesterov: found momentum {} and dampening {}, expected a momentum and no dampening",
         sgd.momentum, sgd.dampening);
  return sgd;
}

}  // namespace

OptimizerOptions optimizer_of(const TrainingArguments& args) {
  if (args.optim == "sgd") return sgd_of(args);
  settings_of(args);  // for its errors: the others take none
  if (args.optim == "adafactor") return AdafactorOptions{.weight_decay = args.weight_decay};
  return AdamWOptions{args.adam_beta1, args.adam_beta2, args.adam_epsilon, args.weight_decay};
}

}  // namespace lathe
