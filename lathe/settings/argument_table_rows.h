#pragma once
#include <string_view>
#include <vector>

#include "lathe/settings/argument_table.h"

/// The rows of training_fields() by topic, grouped and ordered as in training_args.py of transformers 5.23.
namespace lathe::training_rows {

using T = TrainingArguments;
using Fields = std::vector<Field<T>>;
inline constexpr Grade M = Grade::kMust, S = Grade::kShould, L = Grade::kLater, R = Grade::kRejected,
                       X = Grade::kLathe;
inline constexpr Support kWorks = Support::kWorks, kNoEffect = Support::kNoEffect;

inline constexpr std::string_view kNative = "the native step is one compiled program already";
inline constexpr std::string_view kOneDevice = "a process uses one device";
inline constexpr std::string_view kShards = "--zero_stage 1 shards the states of the optimizer";

void add_output_and_schedule(Fields& f);
void add_step_and_precision(Fields& f);
void add_logging(Fields& f);
void add_evaluation(Fields& f);
void add_saving(Fields& f);

}  // namespace lathe::training_rows
