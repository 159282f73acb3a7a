#include "lathe/app/commands/commands.h"

#include <fmt/format.h>

#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"

namespace lathe {

Command glue_command(), classify_command(), qa_command(), launch_command(), predict_command(),
    bench_command(), runs_command(), demo_command(), tokenize_command(), info_command(), doctor_command(),
    arguments_command(), completion_command();

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      glue_command(),   classify_command(),  qa_command(),        launch_command(),   predict_command(),
      bench_command(),  runs_command(),      demo_command(),      tokenize_command(), info_command(),
      doctor_command(), arguments_command(), completion_command()};
  return list;
}

std::vector<std::string> script_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (command.words == Words::kScript) names.push_back(command.name);
  return names;
}

void Call::refuse(const std::string& why) const {
  fail(ErrorCode::kUsage, "lathe {}: {}\n{}", command.name, why, command.usage());
}

std::optional<Call> read_call(const Command& command, const std::vector<BoundField>& fields,
                              const std::vector<std::string>& args) {
  ParsedArguments parsed = parse_arguments(fields, args, command.words);
  if (parsed.help) {
    standard_port().out(help_text(command));
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
