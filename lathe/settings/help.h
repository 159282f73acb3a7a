#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/settings/argument_table.h"
#include "lathe/settings/options.h"

namespace lathe {

/// Fields under a title of their own.
struct HelpSection {
  std::string title;
  std::vector<const FieldInfo*> fields;
};

template <typename S>
HelpSection help_section(std::string title) {
  HelpSection section{std::move(title), {}};
  for (const auto& field : fields_of(S())) section.fields.push_back(&field.info);
  return section;
}

/// The flags of fields as a command's, with --no_x where there is one; those that are accepted at their
/// default only are left out.
std::vector<Flag> flags_of(const HelpSection& section);

/// What may follow the name of a command with a script's fields and those of training.
template <typename Script>
Syntax script_syntax() {
  Syntax syntax{"", flags_of(help_section<Script>(""))};
  for (Flag& flag : flags_of(help_section<TrainingArguments>(""))) syntax.flags.push_back(std::move(flag));
  return syntax;
}

/// In a text for `wrapped`: a space at which no line breaks.
constexpr char kGlue = '\x1f';
/// The words of `text` from column `column` on, broken at `width`, further lines indented to `indent`.
std::string wrapped(const std::string& text, size_t column, size_t indent, size_t width = 100);

/// The text of --help: usage, then each section's flags with type, meaning, choices and default; flags that
/// are accepted at their default only and old names as lists at the end.  Lines are at most `width` columns
/// wide.
std::string help_text(std::string_view usage, const std::vector<HelpSection>& sections, int width = 100);

/// The same as a page of the docs: one Markdown table per section, and one of the old names.
std::string arguments_markdown(const std::vector<HelpSection>& sections);
/// The page docs/arguments.md: all commands.
std::string arguments_page();

/// All tables as data, for comparing with the installed transformers: {"training": [{"name", "type",
/// "optional", "default", "grade", "support", "choices", "later", "help"}], "glue": [...], "qa": [...],
/// "old_names":
/// [{"name", "type", "default", "to"}]}.  What `lathe arguments --json` prints.
nlohmann::ordered_json arguments_json();

}  // namespace lathe
