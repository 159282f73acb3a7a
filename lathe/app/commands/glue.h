#pragma once
#include <memory>
#include <utility>

#include "lathe/app/commands/script_run.h"
#include "lathe/app/commands/script_texts.h"

namespace lathe {

/// Fine-tunes, evaluates and uses a classifier of texts, by the rules of this script.
int run_classifier(TextScript script, Terminal& terminal, CommandLine<GlueArguments>& line, RunFacts facts,
                   std::shared_ptr<ProcessGroup> group);

/// The same as script_command takes it.
template <TextScript kScript>
class ClassifierJob {
 public:
  ClassifierJob(Terminal& terminal, CommandLine<GlueArguments>& line, RunFacts facts,
                std::shared_ptr<ProcessGroup> group)
      : terminal_(terminal), line_(line), facts_(std::move(facts)), group_(std::move(group)) {}
  int run() { return run_classifier(kScript, terminal_, line_, std::move(facts_), std::move(group_)); }

 private:
  Terminal& terminal_;
  CommandLine<GlueArguments>& line_;
  RunFacts facts_;
  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace lathe
