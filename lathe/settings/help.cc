#include "lathe/settings/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace lathe {
namespace {

constexpr size_t kIndent = 38;  // where the meanings start

/// A command that is no script has switches, and says of a flag without default what its absence means.
std::string meaning_of(const FieldInfo& info, Words words) {
  std::string text(info.help);
  if (!info.rules.choices.empty()) text += fmt::format(" One of {}.", fmt::join(info.rules.choices, ", "));
  if (info.rules.required) return text + " (required)";
  if (info.support() == Support::kNoEffect) text += fmt::format(" No effect: {}.", info.rules.reason);
  const bool absent = info.default_value.is_null() || info.kind == Kind::kBool;
  if (words != Words::kScript && absent) return text;
  return text + fmt::format(" (default:{}{})", kGlue, value_text(info, info.default_value));
}

std::string flag_help(const FieldInfo& info, Words words, size_t width) {
  std::string line = "  ";
  if (!info.rules.letter.empty()) line += fmt::format("-{}, ", info.rules.letter);
  line += fmt::format("--{}", info.name);
  if (words == Words::kScript || info.kind != Kind::kBool) line += fmt::format(" {}", value_name(info));
  if (info.negatable()) line += fmt::format(", --no_{}", info.name);
  line +=
      line.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ') : std::string(kIndent - line.size(), ' ');
  return line + wrapped(meaning_of(info, words), kIndent, kIndent, width) + "\n";
}

std::string_view status(const FieldInfo& info) {
  constexpr std::string_view kNames[] = {"works", "no effect here", "refused"};
  return kNames[static_cast<size_t>(info.support())];
}

std::string in_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

nlohmann::ordered_json table_json(const HelpSection& section) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto* info : section.fields) {
    rows.push_back({{"name", info->name},
                    {"type", name_of(info->kind)},
                    {"optional", info->optional},
                    {"default", info->default_value},
                    {"grade", name_of(info->grade)},
                    {"support", status(*info)},
                    {"choices", info->rules.choices},
                    {"later", info->rules.later},
                    {"help", info->help}});
  }
  return rows;
}

}  // namespace

std::string wrapped(const std::string& text, size_t column, size_t indent, size_t width) {
  std::istringstream words(text);
  std::string out;
  bool first = true;
  for (std::string word; words >> word;) {
    if (!first && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  std::replace(out.begin(), out.end(), kGlue, ' ');
  return out;
}

std::string Syntax::usage() const {
  std::string text = "usage: ";
  std::istringstream forms(synopsis);
  for (std::string form; std::getline(forms, form);)
    text += fmt::format("{}lathe {} {}\n", text.size() > 7 ? "       " : "", name, form);
  return text;
}

std::vector<Flag> flags_of(const Syntax& syntax) {
  std::vector<Flag> flags;
  for (const auto& section : syntax.sections) {
    for (const auto* info : section.fields) {
      if (info->support() == Support::kNotYet) continue;
      std::string meaning = meaning_of(*info, syntax.words);
      std::replace(meaning.begin(), meaning.end(), kGlue, ' ');
      const std::string value(info->kind == Kind::kBool ? "" : value_name(*info));
      const std::vector<std::string> choices(info->rules.choices.begin(), info->rules.choices.end());
      if (!info->rules.letter.empty())
        flags.push_back({"-" + std::string(info->rules.letter), value, meaning, choices});
      flags.push_back({"--" + std::string(info->name), value, meaning, choices});
      if (info->negatable()) flags.push_back({"--no_" + std::string(info->name), "", "The opposite."});
    }
  }
  return flags;
}

std::string description(const Syntax& syntax, size_t width) {
  std::string text = syntax.usage() + "\n";
  std::istringstream paragraphs(syntax.details.empty() ? syntax.summary : syntax.details);
  for (std::string line; std::getline(paragraphs, line);)
    text += (line.empty() ? "" : "  " + (line.starts_with(' ') ? line : wrapped(line, 2, 2, width))) + "\n";
  return text;
}

std::string help_text(const Syntax& syntax, int width) {
  const auto columns = static_cast<size_t>(width);
  std::string out = description(syntax, columns), later, old;
  for (const auto& section : syntax.sections) {
    if (!section.fields.empty()) out += fmt::format("\n{}:\n", section.title);
    for (const auto* info : section.fields) {
      if (info->support() == Support::kNotYet) {
        later += fmt::format(" --{}", info->name);
      } else {
        out += flag_help(*info, syntax.words, columns);
      }
    }
  }
  if (syntax.words != Words::kScript) return out;
  for (const auto& name : old_names()) old += fmt::format(" --{}", name.name);
  out += "\nAccepted at their default only, so far:\n  " + wrapped(later, 2, 2, columns) + "\n";
  out += "\nNames of older versions, accepted with a notice:\n  " + wrapped(old, 2, 2, columns) + "\n";
  return out;
}

std::string first_help_text(const Syntax& syntax, int width) {
  const auto columns = static_cast<size_t>(width);
  std::string first;
  std::vector<std::pair<std::string, std::string>> groups;  // title, flags
  for (const auto& section : syntax.sections) {
    for (const auto* info : section.fields) {
      if (info->rules.first) {
        first += flag_help(*info, syntax.words, columns);
      } else if (info->support() == Support::kWorks) {
        const std::string title(info->group.empty() ? std::string_view(section.title) : info->group);
        if (groups.empty() || groups.back().first != title) groups.emplace_back(title, "");
        groups.back().second += fmt::format(" --{}", info->name);
      }
    }
  }
  if (first.empty()) return help_text(syntax, width);
  std::string out = description(syntax, columns);
  if (!syntax.example.empty()) out += fmt::format("\nfor example:\n  {}\n", syntax.example);
  out += "\nwhat most runs give:\n" + first;
  for (const auto& [title, flags] : groups)
    out += fmt::format("\n{}:\n  {}\n", title, wrapped(flags, 2, 2, columns));
  return out +
         fmt::format("\nlathe {} --help all says what each of them means, and its default.\n", syntax.name);
}

std::string arguments_page(const std::vector<HelpSection>& sections) {
  std::string out =
      "# Every flag\n\n"
      "Made by `lathe arguments` from the list that the program reads; a test fails where this page is "
      "older.  "
      "Names, defaults and meanings are those of transformers' `TrainingArguments`, `run_glue.py`, "
      "`run_qa.py`, `run_ner.py`, `run_mlm.py` and `run_swag.py`, "
      "after them Lathe's own.  *works*: as there.  *no effect here*: accepted with a line that says why "
      "nothing changes.  *refused*: another value than the default ends the program with a line that says "
      "why.\n\n";
  for (const auto& section : sections) {
    out += fmt::format(
        "## {}\n\n| flag | type | default | meaning | status |\n| --- | --- | --- | --- | --- |\n",
        section.title);
    for (const auto* info : section.fields) {
      std::string meaning(info->help);
      if (!info->rules.choices.empty())
        meaning += fmt::format(" One of {}.", fmt::join(info->rules.choices, ", "));
      std::string state(status(*info));
      if (!info->rules.reason.empty() && info->support() != Support::kWorks)
        state += fmt::format(": {}", info->rules.reason);
      if (!info->rules.later.empty())
        state += fmt::format("; refused so far: {}", fmt::join(info->rules.later, ", "));
      out += fmt::format("| `--{}` | {} | {} | {} | {} |\n", info->name, name_of(info->kind),
                         info->rules.required ? "required" : in_cell(value_text(*info, info->default_value)),
                         in_cell(meaning), in_cell(state));
    }
    out += "\n";
  }
  out += "## Names of older versions\n\n| flag | type | becomes |\n| --- | --- | --- |\n";
  for (const auto& old : old_names()) {
    const std::string to = !old.to.empty()     ? fmt::format("`--{}`", old.to)
                           : !old.note.empty() ? fmt::format("nothing: {}", old.note)
                                               : "accepted at its default only";
    out += fmt::format("| `--{}` | {} | {} |\n", old.name, name_of(old.kind), to);
  }
  return out;
}

nlohmann::ordered_json arguments_json() {
  nlohmann::ordered_json out;
  out["training"] = table_json(help_section<TrainingArguments>(""));
  out["glue"] = table_json(help_section<GlueArguments>(""));
  out["qa"] = table_json(help_section<QaArguments>(""));
  out["ner"] = table_json(help_section<NerArguments>(""));
  out["mlm"] = table_json(help_section<MlmArguments>(""));
  out["clm"] = table_json(help_section<ClmArguments>(""));
  out["swag"] = table_json(help_section<SwagArguments>(""));
  out["embed"] = table_json(help_section<EmbedArguments>(""));
  out["rerank"] = table_json(help_section<RerankArguments>(""));
  auto& old = out["old_names"] = nlohmann::ordered_json::array();
  for (const auto& name : old_names()) {
    old.push_back({{"name", name.name},
                   {"type", name_of(name.kind)},
                   {"default", name.default_value},
                   {"to", name.to}});
  }
  return out;
}

}  // namespace lathe
