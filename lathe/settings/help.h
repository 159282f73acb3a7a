#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/settings/argument_parser.h"

namespace lathe {

/// Fields under a title of their own.
struct HelpSection {
  std::string title;
  std::vector<const FieldInfo*> fields;
};

/// The table must outlive the section.
template <typename S>
HelpSection help_section(std::string title, const std::vector<Field<S>>& table) {
  HelpSection section{std::move(title), {}};
  for (const auto& field : table) section.fields.push_back(&field.info);
  return section;
}
template <typename S>
HelpSection help_section(std::string title) {
  return help_section(std::move(title), fields_of(S()));
}

/// The arguments of a command and their texts: parsing, help, completion, man page and docs come from here.
struct Syntax {
  std::string name, summary;
  std::string synopsis = "[flags]";  ///< what follows the name; a line for each form
  std::string details =
      {};  ///< of help, a line for each paragraph; one that begins with a space stays as it is
  Words words = Words::kNone;
  std::vector<std::string> choices = {};  ///< what the first word may be; empty: anything
  bool or_files = false;                  ///< or a file or folder
  std::string example = {};               ///< a command to paste, for first_help_text
  std::vector<HelpSection> sections = {};

  /// "usage: lathe NAME …", a line for each form.
  std::string usage() const;
};

/// A flag as shells and the man page show it.
struct Flag {
  std::string name;        ///< "--file"
  std::string value = {};  ///< what it takes: "FILE"; empty: a switch
  std::string meaning = {};
  std::vector<std::string> choices = {};  ///< values that it takes; empty: any
};
/// All flags of a command, with --no_x where it exists.  Flags that are accepted only at their default are
/// left out.
std::vector<Flag> flags_of(const Syntax& syntax);

/// In a text for `wrapped`: a space at which no line breaks.
constexpr char kGlue = '\x1f';
/// The words of `text` from column `column` on, broken at `width`, further lines indented to `indent`.
std::string wrapped(const std::string& text, size_t column, size_t indent, size_t width = 100);
/// Usage, then the details, or the summary if there are no details.
std::string description(const Syntax& syntax, size_t width = 100);

/// The text of --help: description, then each section's flags with type, meaning, choices and default.  Flags
/// that are accepted only at their default, and a script's old names, follow as lists.  Lines have at most
/// `width` columns.
std::string help_text(const Syntax& syntax, int width = 100);

/// The text of --help for a command with fields that are `first`: description, example, those flags as in
/// help_text, and the names of all others that do something, by group.  Without such fields: help_text.
std::string first_help_text(const Syntax& syntax, int width = 100);

/// The page docs/arguments.md: one Markdown table for each section, and one of the old names.
std::string arguments_page(const std::vector<HelpSection>& sections);

/// All tables as data, for comparing with the installed transformers: {"training": [{"name", "type",
/// "optional", "default", "grade", "support", "choices", "later", "help"}], "glue": [...], "qa": [...],
/// "ner": [...], "mlm": [...], "clm": [...], "swag": [...], "embed": [...], "rerank": [...],
/// "old_names": [{"name", "type", "default", "to"}]}. `lathe arguments --json` prints it.
nlohmann::ordered_json arguments_json();

}  // namespace lathe
