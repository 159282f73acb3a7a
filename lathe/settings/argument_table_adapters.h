#pragma once
#include "lathe/settings/argument_table.h"

namespace lathe {

/// A script's rows, and those of adapters after them; the names are those of TRL's ModelConfig, the defaults
/// those of PEFT's LoraConfig.
template <typename S>
std::vector<Field<S>> with_adapter_rows(std::vector<Field<S>> rows) {
  using A = AdapterArguments;
  constexpr Grade S2 = Grade::kShould;
  const FieldRules works = {.support = Support::kWorks};
  const Field<S> own[] = {
      {"use_peft", &A::use_peft, S2, "Train a LoRA adapter, and save only it.", works},
      {"lora_r",
       &A::lora_r,
       S2,
       "Rank of the adapter's matrices.",
       {.support = Support::kWorks, .low = 1, .high = 1 << 20}},
      {"lora_alpha",
       &A::lora_alpha,
       S2,
       "The adapter is scaled by lora_alpha / lora_r.",
       {.support = Support::kWorks, .low = 1}},
      {"lora_dropout",
       &A::lora_dropout,
       S2,
       "Dropout of what the adapter reads.",
       {.support = Support::kWorks, .low = 0, .high = 1, .below_high = true}},
      {"lora_target_modules", &A::lora_target_modules, S2,
       "Linear layers that are adapted, or all-linear; if not given, PEFT's for this family.", works},
      {"lora_modules_to_save", &A::lora_modules_to_save, S2,
       "Modules that are trained whole, in addition to the head.", works},
      {"use_rslora", &A::use_rslora, S2, "Scale by lora_alpha / sqrt(lora_r).", works},
  };
  rows.insert(rows.end(), std::begin(own), std::end(own));
  return rows;
}

}  // namespace lathe
