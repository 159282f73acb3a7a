#include "lathe/tokenizers/templates/model_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/git_lfs.h"
#include "lathe/io/json_file.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr const char* kWayOut = "mend it there, or give a template by --chat_template_path";

std::string read_text(FileSystem& fs, const std::string& path) {
  std::string content = fs.read(path).value();
  refuse_git_lfs_pointer(content, path);
  check_utf8(content, path);
  return content;
}

void add(std::string name, std::string source, std::string place, std::vector<ModelTemplate>* out) {
  const auto found =
      std::find_if(out->begin(), out->end(), [&](const ModelTemplate& t) { return t.name == name; });
  ModelTemplate one = {std::move(name), std::move(source), std::move(place)};
  if (found != out->end()) {
    *found = std::move(one);
  } else {
    out->push_back(std::move(one));
  }
}

std::vector<ModelTemplate> template_files(FileSystem& fs, const std::string& folder) {
  std::vector<ModelTemplate> out;
  const std::string single = join_path(folder, "chat_template.jinja");
  if (fs.exists(single)) add("default", read_text(fs, single), single, &out);
  const std::string more = join_path(folder, "additional_chat_templates");
  if (!fs.is_directory(more)) return out;
  for (const std::string& file : fs.list(more).value()) {
    constexpr std::string_view kEnd = ".jinja";
    if (!file.ends_with(kEnd)) continue;
    const std::string path = join_path(more, file);
    add(file.substr(0, file.size() - kEnd.size()), read_text(fs, path), path, &out);
  }
  return out;
}

/// One of a list.
void add_named(const nlohmann::json& item, const std::string& place, std::vector<ModelTemplate>* out) {
  const auto is_text = [&](const char* key) { return item.contains(key) && item[key].is_string(); };
  if (!item.is_object() || !is_text("name") || !is_text("template"))
    fail(ErrorCode::kInvalidData, "{}: found an entry without the texts name and template, expected both; {}",
         place, kWayOut);
  const auto name = item["name"].get<std::string>();
  add(name, item["template"].get<std::string>(), place + " \"" + name + "\"", out);
}

}  // namespace

std::vector<ModelTemplate> read_model_templates(FileSystem& fs, const std::string& folder) {
  std::vector<ModelTemplate> out = template_files(fs, folder);
  const std::string path = join_path(folder, "tokenizer_config.json");
  if (!out.empty() || !fs.exists(path)) return out;
  const nlohmann::json config = parse_json(read_text(fs, path), path);
  if (!config.is_object())
    fail(ErrorCode::kInvalidData, "{}: found a {}, expected an object", path, config.type_name());
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return out;
  const std::string place = path + ": chat_template";
  if (found->is_string()) {
    add("default", found->get<std::string>(), place, &out);
  } else if (found->is_array()) {
    for (const nlohmann::json& item : *found) add_named(item, place, &out);
  } else {
    fail(ErrorCode::kInvalidData, "{}: found a {}, expected a text or a list; {}", place, found->type_name(),
         kWayOut);
  }
  return out;
}

const ModelTemplate& choose_model_template(const std::vector<ModelTemplate>& templates, bool tools,
                                           const std::string& folder) {
  if (templates.empty())
    fail(ErrorCode::kNotFound,
         "{}: found no chat template, expected chat_template.jinja or chat_template in "
         "tokenizer_config.json; give "
         "one by --chat_template_path",
         folder);
  std::string names;
  const ModelTemplate* chosen = nullptr;
  for (const ModelTemplate& t : templates) {
    names += (names.empty() ? "" : ", ") + t.name;
    if (t.name == "default" && chosen == nullptr) chosen = &t;
    if (t.name == "tool_use" && tools) chosen = &t;
  }
  if (chosen == nullptr)
    fail(ErrorCode::kNotFound,
         "{}: found the chat templates {}, expected one named default; give one by --chat_template_path",
         folder, names);
  return *chosen;
}

}  // namespace lathe
