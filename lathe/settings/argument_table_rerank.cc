// The flags of lathe rerank.
#include "lathe/settings/argument_table_adapters.h"

namespace lathe {

const std::vector<Field<RerankArguments>>& rerank_fields() {
  using A = RerankArguments;
  constexpr Grade kOwn = Grade::kLathe;
  constexpr double kMostTokens = std::numeric_limits<int>::max();
  static const std::vector<Field<A>> fields = with_adapter_rows<A>({
      {row_of("model_name_or_path"), &A::model_name_or_path},
      {row_of("config_name"), &A::config_name},
      {row_of("tokenizer_name"), &A::tokenizer_name},
      {row_of("cache_dir"), &A::cache_dir},
      {row_of("model_revision"), &A::model_revision},
      {row_of("token"), &A::token},
      {row_of("ignore_mismatched_sizes"), &A::ignore_mismatched_sizes},
      {"dataset_name",
       &A::dataset_name,
       kOwn,
       "Data set by its name on the Hugging Face Hub: two texts and a label a row.",
       {.first = true}},
      {row_of("dataset_config_name"), &A::dataset_config_name},
      {"train_file",
       &A::train_file,
       kOwn,
       "Own training data: csv, tsv, json, jsonl or parquet with two texts and a label a row, or a query, a "
       "list of documents and a list of their labels.",
       {.first = true}},
      {row_of("validation_file"), &A::validation_file},
      {"test_file", &A::test_file, kOwn, "Own test data for --do_predict; the rows need no labels."},
      {"text_column_names", &A::text_column_names, kOwn,
       "The two columns of texts, with a comma between their names, if there are more than two."},
      {"label_column_name", &A::label_column_name, kOwn,
       "Column of the labels, if not label, labels, score or scores."},
      {"loss",
       &A::loss,
       kOwn,
       "What is learned: labels of 0 to 1, numbers of any size, or classes 0, 1, 2 …; if not given, the "
       "first, "
       "and the last of a model that has several classes.",
       {.choices = {"BinaryCrossEntropyLoss", "MSELoss", "CrossEntropyLoss"}, .first = true}},
      {"activation_fn",
       &A::activation_fn,
       kOwn,
       "What CrossEncoder makes of a score; if not given, what the model says, else Sigmoid after "
       "BinaryCrossEntropyLoss and Identity after the others.",
       {.choices = {"Sigmoid", "Identity"}}},
      {"max_seq_length",
       &A::max_seq_length,
       kOwn,
       "Longest pair in tokens, if not what the model takes; longer ones are cut.",
       {.low = 5, .high = kMostTokens}},
      {row_of("pad_to_max_length"), &A::pad_to_max_length},
      {"max_train_samples", &A::max_train_samples, kOwn, "Use the first so many training rows.", {.low = 1}},
      {"max_eval_samples", &A::max_eval_samples, kOwn, "Use the first so many validation rows.", {.low = 1}},
      {"max_predict_samples", &A::max_predict_samples, kOwn, "Use the first so many test rows.", {.low = 1}},
      {row_of("config_overrides"), &A::config_overrides},
  });
  return fields;
}

}  // namespace lathe
