#include "lathe/app/commands/commands.h"

#include <fmt/format.h>

#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"
#include "lathe/core/version.h"

namespace lathe {

Command glue_command(), classify_command(), qa_command(), ner_command(), mlm_command(), clm_command(),
    swag_command(), embed_command(), rerank_command(), launch_command(), predict_command(), encode_command(),
    merge_command(), bench_command(), runs_command(), demo_command(), tokenize_command(), info_command(),
    doctor_command(), arguments_command(), completion_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> list = [] {
    const std::pair<const char*, std::vector<Command>> groups[] = {
        {"train",
         {glue_command(), classify_command(), qa_command(), ner_command(), mlm_command(), clm_command(),
          swag_command(), embed_command(), rerank_command(), demo_command(), launch_command()}},
        {"use a model",
         {predict_command(), encode_command(), merge_command(), tokenize_command(), info_command()}},
        {"see runs and this machine", {runs_command(), bench_command(), doctor_command()}},
        {"this program", {arguments_command(), completion_command()}}};
    std::vector<Command> all;
    for (const auto& [title, members] : groups)
      for (const Command& member : members) {
        all.push_back(member);
        all.back().group = title;
      }
    return all;
  }();
  return list;
}

std::vector<std::string> script_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (command.words == Words::kScript) names.push_back(command.name);
  return names;
}

std::string overview() {
  std::string text =
      fmt::format("lathe {}: native fine-tuning of transformers\n\nusage: lathe COMMAND …\n", kVersion);
  const std::string* group = nullptr;
  for (const Command& command : commands()) {
    if (group == nullptr || *group != command.group) text += fmt::format("\n{}:\n", command.group);
    group = &command.group;
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  }
  text += fmt::format("\nfor example:\n  {}\n", commands().front().example);
  return text +
         "\nlathe COMMAND --help shows the flags of a command, --help all what each of them means.\n"
         "lathe demo needs neither data nor network.\n";
}

void Call::refuse(const std::string& why) const {
  fail(ErrorCode::kUsage, "lathe {}: {}\n{}", command.name, why, command.usage());
}

std::optional<Call> read_call(const Command& command, const std::vector<BoundField>& fields,
                              const std::vector<std::string>& args) {
  ParsedArguments parsed = parse_arguments(fields, args, command.words);
  if (parsed.help) {
    standard_port().out(parsed.help_all ? help_text(command) : first_help_text(command));
    return std::nullopt;
  }
  return Call{command, args, std::move(parsed.words), std::move(parsed.given)};
}

std::string command_page() {
  std::vector<HelpSection> sections, others;
  for (const Command& command : commands()) {
    const bool script = command.words == Words::kScript;
    auto& to = script ? sections : others;
    if (!to.empty() && to.back().fields == command.sections[0].fields)
      to.back().title += ", lathe " + command.name;
    else if (script || !command.sections[0].fields.empty())
      to.push_back({"lathe " + command.name, command.sections[0].fields});
  }
  sections.push_back(help_section<TrainingArguments>("training"));
  sections.insert(sections.end(), others.begin(), others.end());
  return arguments_page(sections);
}

}  // namespace lathe
