// lathe classify: what run_classification.py does.
#include "lathe/app/commands/glue.h"

namespace lathe {

Command classify_command() {
  return script_command<ClassifierJob<TextScript::kRunClassification>, GlueArguments>(
      "classify", "run_classification", "fine-tune and evaluate a classifier of own texts");
}

}  // namespace lathe
