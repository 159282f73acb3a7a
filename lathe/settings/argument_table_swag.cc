// The flags of run_swag.py.
#include "lathe/settings/argument_table_adapters.h"

namespace lathe {

const std::vector<Field<SwagArguments>>& swag_fields() {
  using A = SwagArguments;
  constexpr Grade kScript = Grade::kMust, kOwn = Grade::kLathe;
  constexpr double kMostTokens = std::numeric_limits<int>::max();
  static const std::vector<Field<A>> fields = with_adapter_rows<A>({
      {row_of("model_name_or_path"), &A::model_name_or_path},
      {row_of("config_name"), &A::config_name},
      {row_of("tokenizer_name"), &A::tokenizer_name},
      {row_of("cache_dir"), &A::cache_dir},
      {row_of("use_fast_tokenizer"), &A::use_fast_tokenizer},
      {row_of("model_revision"), &A::model_revision},
      {row_of("token"), &A::token},
      {row_of("trust_remote_code"), &A::trust_remote_code},
      {row_of("ignore_mismatched_sizes"), &A::ignore_mismatched_sizes},
      {"dataset_name",
       &A::dataset_name,
       kOwn,
       "Data set by its name on the Hugging Face Hub; without own files swag, of which the part is regular.",
       {.first = true}},
      {row_of("dataset_config_name"), &A::dataset_config_name},
      {"train_file",
       &A::train_file,
       kScript,
       "Own training data: csv, tsv, json, jsonl or parquet with a context, endings and a label a row.",
       {.first = true}},
      {row_of("validation_file"), &A::validation_file},
      {"test_file", &A::test_file, kOwn, "Own test data for --do_predict; the rows need no labels."},
      {"context_column_name", &A::context_column_name, kOwn, "Column of the contexts, if not sent1."},
      {"question_column_name", &A::question_column_name, kOwn,
       "Column of what each ending begins with, if not sent2; there need not be one."},
      {"endings_column_name", &A::endings_column_name, kOwn,
       "Column of lists of endings; if not given, the columns ending0, ending1 and so on, or endings, or "
       "choices."},
      {"label_column_name", &A::label_column_name, kOwn,
       "Column of the number of the right ending, from 0, if not label."},
      {row_of("overwrite_cache"), &A::overwrite_cache},
      {row_of("preprocessing_num_workers"), &A::preprocessing_num_workers},
      {"max_seq_length",
       &A::max_seq_length,
       kScript,
       "Longest context with an ending in tokens, if not what the tokenizer takes, 1024 at most; longer ones "
       "are cut.",
       {.low = 5, .high = kMostTokens}},
      {row_of("pad_to_max_length"), &A::pad_to_max_length},
      {"max_train_samples",
       &A::max_train_samples,
       kScript,
       "Use the first so many training rows.",
       {.low = 1}},
      {"max_eval_samples",
       &A::max_eval_samples,
       kScript,
       "Use the first so many validation rows.",
       {.low = 1}},
      {"max_predict_samples", &A::max_predict_samples, kOwn, "Use the first so many test rows.", {.low = 1}},
      {row_of("config_overrides"), &A::config_overrides},
  });
  return fields;
}

}  // namespace lathe
