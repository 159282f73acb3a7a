// lathe completion: what a shell loads to complete lathe's words.
#include "lathe/app/commands/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// The text within single quotes; fish escapes within them, the other shells end them.
std::string quoted(const std::string& text, const char* quote) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += quote;
    else
      out += c;
  }
  return out + "'";
}

/// The first sentence: short enough to be shown next to a flag.
std::string brief(const std::string& meaning) {
  const size_t end = meaning.find(". ");
  return end == std::string::npos ? meaning : meaning.substr(0, end);
}

std::string names(const std::vector<Flag>& flags) {
  std::string text;
  for (const Flag& flag : flags) text += flag.name + " ";
  return text + "--help";
}

/// `case` branches that set `values` to the choices of a flag or of a command's first word. or_files: what
/// they also do if files are allowed.
std::string value_cases(const std::vector<Command>& commands, const char* begin, const char* end,
                        const char* or_files) {
  std::string text;
  for (const Command& command : commands) {
    for (const Flag& flag : flags_of(command))
      if (!flag.choices.empty())
        text += fmt::format("    {}:{}) values={}{}{} ;;\n", command.name, flag.name, begin,
                            fmt::join(flag.choices, " "), end);
    if (!command.choices.empty())
      text += fmt::format("    {0}:{0}) values={1}{2}{3}{4} ;;\n", command.name, begin,
                          fmt::join(command.choices, " "), end, command.or_files ? or_files : "");
  }
  return text;
}

/// What the shells say of links with the names of scripts: a case for each, the commands, the links.
struct Scripts {
  std::string cases, commands, links;
};
Scripts scripts_of(const std::vector<Command>& commands) {
  Scripts scripts;
  for (const Command& command : commands) {
    if (command.script.empty()) continue;
    scripts.cases += fmt::format("    {}) command={} ;;\n", command.script, command.name);
    scripts.commands += (scripts.commands.empty() ? "" : "|") + command.name;
    scripts.links += (scripts.links.empty() ? "" : " ") + command.script;
  }
  return scripts;
}

std::string bash_script(const std::vector<Command>& commands) {
  const Scripts scripts = scripts_of(commands);
  std::string all, flags;
  for (const Command& command : commands) {
    all += std::string(all.empty() ? "" : " ") + command.name;
    flags += fmt::format("    {}) flags='{}' ;;\n", command.name, names(flags_of(command)));
  }
  return fmt::format(R"(# bash completion of lathe
_lathe() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[0]##*/}}
  local flags= values= i
  COMPREPLY=()
  case $command in
{3}    *)
      if (( COMP_CWORD == 1 )); then
        mapfile -t COMPREPLY < <(compgen -W '{0} help version --help --version' -- "$word")
        return
      fi
      command=${{COMP_WORDS[1]}} ;;
  esac
  if [[ $command == launch ]]; then
    for (( i = 2; i < COMP_CWORD; ++i )); do
      case ${{COMP_WORDS[i]}} in {4}) command=${{COMP_WORDS[i]}}; break ;; esac
    done
    [[ $command == launch && $before != -* ]] && before=launch
  fi
  case $command in
{1}  esac
  case $command:$before in
{2}  esac
  [[ $word == -* ]] && values=$flags
  [[ -n $values ]] && mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
}}
complete -o bashdefault -o default -F _lathe lathe {5}
)",
                     all, flags, value_cases(commands, "'", "'", "; compopt -o plusdirs 2>/dev/null"),
                     scripts.cases, scripts.commands, scripts.links);
}

/// name:meaning, as _describe needs it.
std::string described(const std::string& name, const std::string& meaning) {
  std::string text;
  for (const char c : brief(meaning)) text += c == ':' ? "\\:" : std::string(1, c);
  return quoted(name + (text.empty() ? "" : ":" + text), "'\\''");
}

std::string zsh_script(const std::vector<Command>& commands) {
  const Scripts scripts = scripts_of(commands);
  std::string all, flags;
  for (const Command& command : commands) {
    all += "    " + described(command.name, command.summary) + "\n";
    flags += fmt::format("    {}) flags=(\n", command.name);
    for (const Flag& flag : flags_of(command)) flags += "      " + described(flag.name, flag.meaning) + "\n";
    flags += "      --help) ;;\n";
  }
  return fmt::format(R"(#compdef lathe {5}
_lathe() {{
  local command=${{words[1]:t}} before=${{words[CURRENT-1]}} files= i
  local -a commands flags values
  commands=(
{0}  )
  case $command in
{3}    *)
      if (( CURRENT == 2 )); then _describe command commands; return; fi
      command=${{words[2]}} ;;
  esac
  if [[ $command == launch ]]; then
    for (( i = 3; i < CURRENT; ++i )); do
      case ${{words[i]}} in {4}) command=${{words[i]}}; break ;; esac
    done
    [[ $command == launch && $before != -* ]] && before=launch
  fi
  case $command in
{1}  esac
  case $command:$before in
{2}  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then _describe -o flag flags
  else
    (( $#values )) && compadd -- $values
    [[ $#values == 0 || -n $files ]] && _files
  fi
}}
if [[ $funcstack[1] == _lathe ]]; then _lathe "$@"; else compdef _lathe lathe {5}; fi
)",
                     all, flags, value_cases(commands, "(", ")", "; files=yes"), scripts.cases,
                     scripts.commands, scripts.links);
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string text = "# fish completion of lathe\n";
  const auto line = [&](const std::string& condition, const std::string& what, const std::string& meaning) {
    text +=
        fmt::format("complete -c lathe -n '{}' {} -d {}\n", condition, what, quoted(brief(meaning), "\\'"));
  };
  for (const Command& command : commands) {
    line("__fish_use_subcommand", fmt::format("-f -a {}", command.name), command.summary);
    const std::string seen = fmt::format("__fish_seen_subcommand_from {}", command.name);
    for (const Flag& flag : flags_of(command)) {
      const bool is_long = flag.name.starts_with("--");
      std::string what = fmt::format("-{} {}", is_long ? "l" : "s", flag.name.substr(is_long ? 2 : 1));
      if (!flag.choices.empty())
        what += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
      else if (!flag.value.empty())
        what += " -r";
      line(seen, what, flag.meaning);
    }
    if (!command.choices.empty())
      line(seen, fmt::format("{}-a '{}'", command.or_files ? "" : "-f ", fmt::join(command.choices, " ")),
           "");
  }
  for (const Command& command : commands)
    if (!command.script.empty())
      text += fmt::format("complete -c {} -w 'lathe {}'\n", command.script, command.name);
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell, const std::vector<Command>& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  fail(ErrorCode::kUsage, "lathe completion: found '{}', expected bash, zsh or fish", shell);
}

Command completion_command() {
  struct CompletionSettings {};
  return make_command<CompletionSettings>(
      {.name = "completion",
       .summary = "print what completes lathe's words in a shell",
       .synopsis = "bash|zsh|fish",
       .details =
           "Prints a script that completes commands, flags and values. For good, from the next shell on:\n"
           "  lathe completion bash >~/.local/share/bash-completion/completions/lathe\n"
           "  lathe completion zsh >DIR/_lathe        (DIR: a folder of $fpath)\n"
           "  lathe completion fish >~/.config/fish/completions/lathe.fish\n"
           "bash and fish look for the command's name: for run_glue, run_qa, run_ner, run_mlm and run_swag "
           "put links beside "
           "these files, "
           "run_glue to "
           "lathe and run_glue.fish to lathe.fish.",
       .words = Words::kAny,
       .choices = {"bash", "zsh", "fish"}},
      {}, [](CompletionSettings&, const Call& call) {
        fmt::print("{}", completion_script(fmt::format("{}", fmt::join(call.words, " ")), commands()));
        return 0;
      });
}

}  // namespace lathe
