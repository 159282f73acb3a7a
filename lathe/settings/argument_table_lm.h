#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/settings/argument_table_adapters.h"

namespace lathe {

inline constexpr double kMostTokensOfSample = std::numeric_limits<int>::max();

/// The flags that run_mlm.py and run_clm.py share, around those that only one of them has, and those of
/// adapters.  families: of --model_type.
template <typename A>
std::vector<Field<A>> with_lm_rows(std::vector<Field<A>> own, std::vector<std::string_view> families) {
  constexpr Grade kScript = Grade::kMust, kMore = Grade::kShould;
  std::vector<Field<A>> fields = {
      {"model_name_or_path",
       &A::model_name_or_path,
       kScript,
       "Model folder, or a name on the Hugging Face Hub; if not given, --model_type begins one from scratch.",
       {.first = true}},
      {"model_type",
       &A::model_type,
       kScript,
       "Family of a model from scratch, with the sizes of its base model.",
       {.choices = std::move(families)}},
      {"config_overrides", &A::config_overrides, kScript,
       "Other values of config.json: 'hidden_size=256,num_hidden_layers=4,num_attention_heads=4'."},
      {"config_name", &A::config_name, kScript,
       "Folder or name of the config, if it is another; of a model from scratch its sizes."},
      {"tokenizer_name", &A::tokenizer_name, kScript,
       "Folder or name of the tokenizer, if it is another; a model from scratch needs one."},
      {row_of("cache_dir"), &A::cache_dir},
      {row_of("use_fast_tokenizer"), &A::use_fast_tokenizer},
      {row_of("model_revision"), &A::model_revision},
      {row_of("token"), &A::token},
      {row_of("trust_remote_code"), &A::trust_remote_code},
      {"dtype",
       &A::dtype,
       kMore,
       "Dtype of the weights.",
       {.support = Support::kNotYet,
        .reason = "weights are trained in float32; --bf16 computes in bfloat16"}},
      {"low_cpu_mem_usage",
       &A::low_cpu_mem_usage,
       kMore,
       "Make the model without weights first.",
       {.support = Support::kNoEffect, .reason = "weights are read from the mapped file"}},
      {"dataset_name",
       &A::dataset_name,
       kScript,
       "Data set of texts by its name on the Hugging Face Hub.",
       {.first = true}},
      {row_of("dataset_config_name"), &A::dataset_config_name},
      {"train_file",
       &A::train_file,
       kScript,
       "Own training data: a text file with a text a line, or csv, tsv, json, jsonl, parquet.",
       {.first = true}},
      {row_of("validation_file"), &A::validation_file},
      {row_of("overwrite_cache"), &A::overwrite_cache},
      {"validation_split_percentage",
       &A::validation_split_percentage,
       kScript,
       "Percentage of the training texts, the first ones, that are validation data where there are none.",
       {.low = 0, .high = 100}},
  };
  fields.insert(fields.end(), own.begin(), own.end());
  const std::vector<Field<A>> last = {
      {row_of("preprocessing_num_workers"), &A::preprocessing_num_workers},
      {"max_train_samples",
       &A::max_train_samples,
       kScript,
       "Use the first so many training samples.",
       {.low = 1}},
      {"max_eval_samples",
       &A::max_eval_samples,
       kScript,
       "Use the first so many validation samples.",
       {.low = 1}},
      {"streaming",
       &A::streaming,
       kMore,
       "Read the data set while it is used.",
       {.support = Support::kNotYet, .reason = "all texts are read and tokenised before the training"}},
  };
  fields.insert(fields.end(), last.begin(), last.end());
  return with_adapter_rows<A>(std::move(fields));
}

}  // namespace lathe
