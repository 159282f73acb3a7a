#include "lathe/tokenizers/json_document.h"

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {

using nlohmann::json;

JsonDocument::JsonDocument(std::string name, const std::string& bytes) : name_(std::move(name)) {
  root_ = parse_json(bytes, name_);
  if (!root_.is_object()) wrong("the file", "an object", root_);
}

void JsonDocument::wrong(const std::string& key, const char* wanted, const json& found) const {
  std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  fail(ErrorCode::kInvalidData,
       "{}: {}: expected {}, found {}; mend it there, or take the tokenizer files that were saved with the "
       "model",
       name_, key, wanted, text);
}

void JsonDocument::unsupported(const char* part, const std::string& found, const char* wanted) const {
  fail(ErrorCode::kUnsupported, "{}: {} '{}' is not supported here; expected {}", name_, part, found, wanted);
}

const json* JsonDocument::get(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

const json& JsonDocument::need(const json& object, const char* key) const {
  const json* value = get(object, key);
  if (value == nullptr)
    fail(ErrorCode::kInvalidData,
         "{}: '{}' is missing; take the tokenizer files that were saved with the model", name_, key);
  return *value;
}

bool JsonDocument::flag(const json& object, const char* key, bool absent) const {
  return optional_flag(object, key).value_or(absent);
}

std::optional<bool> JsonDocument::optional_flag(const json& object, const char* key) const {
  const json* value = get(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(key, "true or false", *value);
  return value->get<bool>();
}

std::string JsonDocument::text(const json& object, const char* key) const {
  const json& value = need(object, key);
  if (!value.is_string()) wrong(key, "a string", value);
  return value.get<std::string>();
}

const json& JsonDocument::list(const json& object, const char* key) const {
  const json& value = need(object, key);
  if (!value.is_array()) wrong(key, "a list", value);
  return value;
}

int32_t JsonDocument::id(const char* key, const json& value) const {
  if (!value.is_number_integer() || value < 0 || value >= kTokenIdLimit)
    wrong(key, "an id below 2^24", value);
  return value.get<int32_t>();
}

std::string JsonDocument::type(const json& component, const char* part) const {
  if (!component.is_object()) wrong(part, "an object", component);
  return get(component, "type") != nullptr ? text(component, "type") : "(none)";
}

AddedToken JsonDocument::added_token(const json& value, bool special_by_default) const {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.special = special_by_default;
    token.normalized = !token.special;
    return token;
  }
  token.content = text(value, "content");
  token.special = flag(value, "special", special_by_default);
  token.normalized = flag(value, "normalized", !token.special);
  token.single_word = flag(value, "single_word", false);
  token.lstrip = flag(value, "lstrip", false);
  token.rstrip = flag(value, "rstrip", false);
  return token;
}

}  // namespace lathe
