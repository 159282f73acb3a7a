#include "lathe/train/run_identity.h"

#include <fmt/format.h>

#include <filesystem>

#include "lathe/io/file_system.h"
#include "lathe/train/checkpoint.h"

namespace lathe {
namespace {

std::string difference(const char* what, const std::string& there, const std::string& there_name,
                       const std::string& here, const std::string& here_name) {
  if (there.empty() || here.empty() || there == here) return "";
  const auto called = [](const std::string& value, const std::string& name) {
    return name.empty() ? value : fmt::format("{} ({})", name, value);
  };
  return fmt::format("{}: found {}, this run has {}", what, called(there, there_name),
                     called(here, here_name));
}

}  // namespace

std::string model_difference(const RunIdentity& there, const RunIdentity& here) {
  return difference("model", there.model, there.model_name, here.model, here.model_name);
}

std::string data_difference(const RunIdentity& there, const RunIdentity& here) {
  return difference("training data", there.data, there.data_name, here.data, here.data_name);
}

bool is_of_its_run(const std::string& folder, const std::string& checkpoint) {
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code error;  // set where one of them is not there
    return std::filesystem::equivalent(a, b, error) && !error;
  };
  const std::string run = parent_folder(checkpoint);
  return same(folder, run) || (checkpoint_step(file_name(folder)) >= 0 && same(parent_folder(folder), run));
}

}  // namespace lathe
