// The manual page, from the list of commands.
#include <fmt/format.h>

#include "lathe/app/commands/completion.h"
#include "lathe/core/version.h"

namespace lathe {
namespace {

/// Text for a roff line: backslashes and hyphens stay what they are, no line is a request.
std::string roff(const std::string& text) {
  std::string out;
  bool starts = true;
  for (const char c : text) {
    if (starts && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    starts = c == '\n';
  }
  return out;
}

std::string flag_entry(const Flag& flag) {
  return fmt::format(".TP\n\\fB{}\\fR{}{}\n{}\n", roff(flag.name), flag.value.empty() ? "" : " ",
                     roff(flag.value), roff(flag.meaning));
}

constexpr const char* kManEnd = R"(.SH ENVIRONMENT
.TP
.B LATHE_DATA_DIR
Where GLUE's folders and SQuAD's files are looked for.
.TP
.B LATHE_ISA
Takes a lower level of the processor's instructions than the best.
.TP
.B LATHE_BLAS
The file of a BLAS library for products of fp32 on the CPU, or none for own ones; on a Mac the default is Accelerate
where it was measured to be faster.
.TP
.B LATHE_RUN_SECRET, LATHE_RUN_SECRET_FILE
The secret that the processes of one run share, or a file of mode 600 with it, where not lathe launch but another
launcher starts them.
.TP
.B HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE
As in Python's huggingface_hub.
.SH FILES
.TP
.I ~/.cache/huggingface/hub
Models and data sets that were fetched by name; shared with Python.
.TP
.I OUTPUT_DIR/checkpoint\-N
A checkpoint, from which the same command goes on.
.SH EXIT STATUS
0; 2 for wrong usage; 1 for everything else.
What Ctrl-C, SIGTERM or SIGHUP stopped ends by that signal: 130, 143 and 129 in a shell.
.SH SEE ALSO
.BR lathe-ops (1)
)";

}  // namespace

std::string man_page(const std::vector<Command>& commands) {
  std::string text = fmt::format(
      ".TH LATHE 1 \"\" \"lathe {}\" \"User Commands\"\n.SH NAME\nlathe \\- native fine\\-tuning of "
      "transformers\n"
      ".SH SYNOPSIS\n.B lathe\n.I COMMAND\n[words and flags]\n.SH DESCRIPTION\n"
      "Fine\\-tunes a Hugging Face BERT with the flags of run_glue.py, run_qa.py, run_ner.py, "
      "run_mlm.py, run_clm.py and run_swag.py.\n.SH "
      "COMMANDS\n",
      kVersion);
  for (const Command& command : commands)
    text += fmt::format(".TP\n\\fBlathe {}\\fR\n{}\n", command.name, roff(command.summary));
  for (const Command& command : commands) {
    text += fmt::format(".SH LATHE {}\n.nf\n{}.fi\n", roff(command.name), roff(description(command)));
    for (const Flag& flag : flags_of(command)) text += flag_entry(flag);
  }
  return text + kManEnd;
}

}  // namespace lathe
