#include "lathe/app/commands.h"

namespace lathe {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"glue", "fine-tune and evaluate a classifier, as run_glue.py", run_glue},
      {"qa", "fine-tune and evaluate question answering, as run_qa.py", run_qa},
      {"launch", "train with several processes on this machine: lathe launch -n 2 glue …", run_launch},
      {"predict", "classify texts with a fine-tuned model", run_predict},
      {"bench", "measure this machine: training, inference, matrix products", run_bench},
      {"demo", "train a small BERT from scratch on questions that a grammar makes", run_demo},
      {"tokenize", "show the tokens of a text", run_tokenize},
      {"info", "show what a model folder holds", run_info},
      {"doctor", "check this machine", run_doctor},
      {"arguments", "the table of all flags, as Markdown or JSON", run_arguments},
  };
  return list;
}

}  // namespace lathe
