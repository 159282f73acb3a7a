// lathe classify: what run_classification.py does.
#include "lathe/app/commands/glue.h"

namespace lathe {

Command classify_command() {
  return script_command<ClassifierJob<TextScript::kRunClassification>, GlueArguments>(
      "classify", "run_classification", "fine-tune and evaluate a classifier of own texts",
      "lathe classify --model_name_or_path bert-base-cased --train_file train.csv \\\n"
      "      --validation_file dev.csv --do_train --do_eval --output_dir own");
}

}  // namespace lathe
