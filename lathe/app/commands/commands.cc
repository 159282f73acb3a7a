#include "lathe/app/commands/commands.h"

#include "lathe/settings/help.h"

namespace lathe {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"glue", "fine-tune and evaluate a classifier, as run_glue.py", run_glue, script_syntax<GlueArguments>},
      {"qa", "fine-tune and evaluate question answering, as run_qa.py", run_qa, script_syntax<QaArguments>},
      {"launch", "train with several processes: lathe launch -n 2 glue …, --hosts a,b on several machines",
       run_launch, launch_syntax},
      {"predict", "classify texts with a fine-tuned model", run_predict, predict_syntax},
      {"bench", "measure this machine: training, inference, matrix products", run_bench, bench_syntax},
      {"runs", "list, compare and plot past runs", run_runs, runs_syntax},
      {"demo", "train a small BERT from scratch on questions that a grammar makes", run_demo, demo_syntax},
      {"tokenize", "show the tokens of a text", run_tokenize, tokenize_syntax},
      {"info", "show what a model folder holds", run_info, info_syntax},
      {"doctor", "check this machine", run_doctor, doctor_syntax},
      {"arguments", "the table of all flags, as Markdown or JSON; the manual page", run_arguments,
       arguments_syntax},
      {"completion", "print what completes lathe's words in a shell", run_completion, completion_syntax},
  };
  return list;
}

}  // namespace lathe
