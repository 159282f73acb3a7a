#include "lathe/program/kernel_choices.h"

#include <sstream>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr const char *kHeader = "own kernels", *kUsed = "used", *kUnused = "unused";

}  // namespace

void KernelChoices::offer(const std::string& key) {
  const std::lock_guard lock(mutex_);
  used_[key] = verdicts_.use(key, setting_);
}

bool KernelChoices::use(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return used_.at(key);
}

std::string KernelChoices::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [key, used] : used_) {
    if (text.empty()) text = std::string(kHeader) + "\n";
    text += std::string(used ? kUsed : kUnused) + "\t" + key + "\n";
  }
  return text;
}

void KernelChoices::adopt(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kHeader) return;
  std::map<std::string, bool> found;
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    const std::string word = line.substr(0, tab);
    if (tab == std::string::npos || (word != kUsed && word != kUnused))
      fail(ErrorCode::kInvalidData,
           "own kernels of a checkpoint: found \"{}\", expected \"used\" or \"unused\", a tab and a kernel",
           line);
    found[line.substr(tab + 1)] = word == kUsed;
  }
  if (setting_ == "all" || setting_ == "none") return;
  const std::lock_guard lock(mutex_);
  for (auto& [key, used] : used_)
    if (const auto it = found.find(key); it != found.end()) used = it->second;
}

}  // namespace lathe
