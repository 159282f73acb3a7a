#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/program/backend.h"
#include "lathe/settings/argument_parser.h"

namespace lathe {

/// The file of an output folder that says which run it belongs to; `lathe runs` reads it.
inline constexpr const char* kRunFile = "run.json";

/// What a run was asked to do, and where it ran.
struct RunFacts {
  std::vector<std::string> words = {};         ///< of the command, secrets hidden
  nlohmann::ordered_json settings = {};        ///< every argument, as --print_config prints them
  std::vector<std::string> text_columns = {};  ///< in which own training data have the texts; empty: others
  bool text_pairs = false;                     ///< two of them are a pair, else they are joined
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< name and value, for people
  std::string state = "running";                                      ///< running, finished or interrupted
  std::string started = {}, ended = {};                               ///< UTC, as 2026-01-31T12:00:00Z

  /// The command as it may be typed into a shell.
  std::string command() const;
};

/// The words of a command line, what follows a secret flag replaced by "<name>".
std::vector<std::string> without_secrets(const std::vector<BoundField>& fields,
                                         std::vector<std::string> words);

/// RunFacts::environment of a run on this machine.
std::vector<std::pair<std::string, std::string>> run_environment(const TrainingArguments& args,
                                                                 const Backend& backend, int processes);

/// Now, in UTC.
std::string time_text();
/// The same moment where this machine is: "2026-01-31 13:00 CET"; what is no such text stays as it is.
std::string local_time(const std::string& utc);

/// run.json.
Status write_run_file(FileSystem& fs, const std::string& folder, const RunFacts& facts);
/// Errors: kNotFound; kInvalidData naming the file.
RunFacts read_run_file(FileSystem& fs, const std::string& folder);

}  // namespace lathe
