#include "lathe/program/kernel_verdicts.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"

namespace lathe {

KernelVerdicts KernelVerdicts::parse(const std::string& text) {
  KernelVerdicts all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string right, key;
    KernelVerdict verdict;
    if (!std::getline(words, right, '\t') || (right != "right" && right != "wrong")) continue;
    if (!(words >> verdict.us >> verdict.parts_us) || words.get() != '\t' || !std::getline(words, key))
      continue;
    if (!std::isfinite(verdict.us) || verdict.us <= 0 || key.empty()) continue;
    verdict.right = right == "right";
    all.set(key, verdict);
  }
  return all;
}

std::string KernelVerdicts::text() const {
  std::string text;
  for (const auto& [key, verdict] : verdicts_)
    text += fmt::format("{}\t{:.6g}\t{:.6g}\t{}\n", verdict.right ? "right" : "wrong", verdict.us,
                        verdict.parts_us, key);
  return text;
}

bool KernelVerdicts::use(const std::string& key, const std::string& setting) const {
  if (setting == "all") return true;
  if (setting == "none") return false;
  const auto found = verdicts_.find(key);
  return found != verdicts_.end() && found->second.good();
}

std::string kernel_setting() {
  const std::string setting = environment(kKernelSetting);
  if (!setting.empty() && setting != "all" && setting != "none")
    fail(ErrorCode::kUsage, "{}: found '{}', expected all or none", kKernelSetting, setting);
  return setting;
}

}  // namespace lathe
