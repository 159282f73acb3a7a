#include "lathe/train/rank_agreement.h"

#include <nlohmann/json.hpp>

#include "lathe/engine/ranks.h"
#include "lathe/settings/argument_table.h"

namespace lathe {
namespace {

std::string weights_checksum(const Session& session) {
  Checksum sum;
  for (size_t i = 0; i < session.model().parameters().size(); ++i)
    sum.add(session.parameters().read(static_cast<int>(i)));
  return sum.text();
}

}  // namespace

void check_same_run(const Session& session, const AutoModel& model, TrainingArguments args,
                    const TokenizedDataset* train, const TokenizedDataset* evaluated) {
  if (session.group() == nullptr) return;
  nlohmann::json facts = common_flags(to_json(bind(args)));
  for (const auto& [name, value] : model.config.json->items()) facts["config.json, " + name] = value;
  facts["labels"] = model.labels;
  facts["training data"] = summary({train, train == nullptr ? size_t{0} : 1});
  facts["validation data"] = summary({evaluated, evaluated == nullptr ? size_t{0} : 1});
  facts["weights"] = weights_checksum(session);
  check_alike(session.group(), facts);
}

void check_same_place(const Session& session, const TrainingPlan& plan, int64_t global_step) {
  if (session.group() == nullptr) return;
  nlohmann::json facts = {{"updates", plan.max_steps}, {"updates done", global_step}};
  if (global_step > 0) facts["weights"] = weights_checksum(session);  // else those that it was made with
  check_alike(session.group(), facts);
}

void take_weights_of_main(Session& session) {
  ProcessGroup* group = session.group();
  if (group == nullptr) return;
  for (size_t i = 0; i < session.model().parameters().size(); ++i) {
    std::vector<float> values = session.parameters().read(static_cast<int>(i));
    group->broadcast(std::as_writable_bytes(std::span(values)), 0).check();
    if (!is_main(group)) session.parameters().write(static_cast<int>(i), values);
  }
}

}  // namespace lathe
