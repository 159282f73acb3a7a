#include "lathe/report/run_facts.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "lathe/core/version.h"
#include "lathe/io/event_file.h"
#include "lathe/io/leftovers.h"
#include "lathe/report/shell_text.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

/// "--hub-token=x" → "hub_token"; empty for what is no flag.
std::string flag_name(const std::string& word) {
  if (!word.starts_with("--")) return "";
  std::string name = word.substr(2, word.find('=') - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

std::vector<std::string> without_secrets(const std::vector<BoundField>& fields,
                                         std::vector<std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = flag_name(words[i]);
    // A prefix of a flag stands for it, and so does an old name: hiding one word too many does no harm.
    const auto secret = std::find_if(fields.begin(), fields.end(), [&](const BoundField& field) {
      if (name.empty() || !field.info->rules.secret) return false;
      const auto& old = old_names();
      return field.info->name.starts_with(name) || std::any_of(old.begin(), old.end(), [&](const OldName& o) {
               return o.to == field.info->name && o.name.starts_with(name);
             });
    });
    if (secret == fields.end()) continue;
    const std::string hidden = hidden_secret(*secret->info);
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos)
      words[i].replace(equals + 1, std::string::npos, hidden);
    else if (i + 1 < words.size() && flag_name(words[i + 1]).empty())
      words[++i] = hidden;
  }
  return words;
}

std::string RunFacts::command() const { return shell_text(words); }

std::vector<std::pair<std::string, std::string>> run_environment(const TrainingArguments& args,
                                                                 const Backend& backend, int processes) {
  utsname system = {};
  uname(&system);
  return {{"lathe", kVersion},
          {"device", fmt::format("{}: {}", backend.info().kind, backend.info().name)},
          {"processes", std::to_string(processes)},
          {"precision", args.fp8    ? "fp8"
                        : args.fp16 ? "fp16"
                        : args.bf16 ? "bf16"
                                    : "fp32"},
          {"machine", host_name()},
          {"system", fmt::format("{} {}, {}", system.sysname, system.release, system.machine)}};
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string local_time(const std::string& utc) {
  std::tm time{};
  const char* end = strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (end == nullptr || *end != '\0') return utc;
  const std::time_t moment = timegm(&time);
  std::array<char, 64> text{};
  std::tm here{};
  if (localtime_r(&moment, &here) == nullptr ||
      strftime(text.data(), text.size(), "%Y-%m-%d %H:%M %Z", &here) == 0)
    return utc;
  return text.data();
}

Status write_run_file(FileSystem& fs, const std::string& folder, const RunFacts& facts) {
  Json json;
  json["state"] = facts.state;
  json["started"] = facts.started;
  json["ended"] = facts.ended;
  json["command"] = facts.words;
  json["environment"] = Json::object();
  for (const auto& [name, value] : facts.environment) json["environment"][name] = value;
  json["settings"] = facts.settings;
  if (!facts.text_columns.empty())
    json["texts"] = {{"columns", facts.text_columns}, {"pairs", facts.text_pairs}};
  const LeftoversNote note(fs, folder);  // of a run that is killed now, the next one clears what it leaves
  return fs.write_atomic(join_path(folder, kRunFile), python_json(json, 2) + "\n");
}

RunFacts read_run_file(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kRunFile);
  const nlohmann::json json = parse_python_json(fs.read(path).value(), path);
  RunFacts facts;
  try {
    facts.state = json.at("state").get<std::string>();
    facts.started = json.at("started").get<std::string>();
    facts.ended = json.at("ended").get<std::string>();
    facts.words = json.at("command").get<std::vector<std::string>>();
    for (const auto& [name, value] : json.at("environment").items())
      facts.environment.emplace_back(name, value.get<std::string>());
    facts.settings = json.at("settings");
    if (json.contains("texts")) {
      facts.text_columns = json["texts"].at("columns").get<std::vector<std::string>>();
      facts.text_pairs = json["texts"].at("pairs").get<bool>();
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kInvalidData, "{}: {}; expected what `lathe glue` and `lathe qa` write", path, e.what());
  }
  return facts;
}

}  // namespace lathe
