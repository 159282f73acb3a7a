#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lathe/tokenizers/added_tokens.h"

namespace lathe {

/// Added tokens and templates may not ask for ids from here on: an embedding table has no such row.
constexpr int64_t kTokenIdLimit = 1 << 24;

/// One JSON file whose root is an object: typed access, with errors that name the file, the key, what is
/// wanted and what was found.  Errors: kInvalidData; kUnsupported from unsupported().
class JsonDocument {
 public:
  using json = nlohmann::json;

  JsonDocument(std::string name, const std::string& bytes);
  const json& root() const { return root_; }
  const std::string& name() const { return name_; }

  [[noreturn]] void wrong(const std::string& key, const char* wanted, const json& found) const;
  [[noreturn]] void unsupported(const char* part, const std::string& found, const char* wanted) const;

  /// The member, or null if it is absent or null, or object is none.
  static const json* get(const json& object, const char* key);
  const json& need(const json& object, const char* key) const;
  bool flag(const json& object, const char* key, bool absent) const;
  std::optional<bool> optional_flag(const json& object, const char* key) const;
  std::string text(const json& object, const char* key) const;
  const json& list(const json& object, const char* key) const;
  /// value as a token id; key is for the message.
  int32_t id(const char* key, const json& value) const;
  /// `type` of a component; "(none)" if it has none.
  std::string type(const json& component, const char* part) const;
  /// A string, or an object with `content` and flags.
  AddedToken added_token(const json& value, bool special_by_default) const;

 private:
  std::string name_;
  json root_;
};

}  // namespace lathe
