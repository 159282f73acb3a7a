// The flags of run_ner.py.
#include "lathe/settings/argument_table_adapters.h"

namespace lathe {

const std::vector<Field<NerArguments>>& ner_fields() {
  using N = NerArguments;
  constexpr Grade kScript = Grade::kMust, kOwn = Grade::kLathe;
  constexpr double kMostTokens = std::numeric_limits<int>::max();
  static const std::vector<Field<N>> fields = with_adapter_rows<N>({
      {row_of("model_name_or_path"), &N::model_name_or_path},
      {row_of("config_name"), &N::config_name},
      {row_of("tokenizer_name"), &N::tokenizer_name},
      {row_of("cache_dir"), &N::cache_dir},
      {row_of("model_revision"), &N::model_revision},
      {row_of("token"), &N::token},
      {row_of("trust_remote_code"), &N::trust_remote_code},
      {row_of("ignore_mismatched_sizes"), &N::ignore_mismatched_sizes},
      {"task_name",
       &N::task_name,
       kScript,
       "What the tags are: ner, pos, chunk, or another NAME of a column NAME_tags.",
       {.choices = {"ner", "pos", "chunk"}, .first = true, .others = true}},
      {"dataset_name",
       &N::dataset_name,
       kScript,
       "Data set by its name on the Hugging Face Hub, with lists of words and tags.",
       {.first = true}},
      {row_of("dataset_config_name"), &N::dataset_config_name},
      {"train_file",
       &N::train_file,
       kScript,
       "Own training data: CoNLL, IOB2, CoNLL-U, or csv, tsv, json, jsonl, parquet with lists.",
       {.first = true}},
      {row_of("validation_file"), &N::validation_file},
      {row_of("test_file"), &N::test_file},
      {"text_column_name", &N::text_column_name, kScript,
       "Column of the words, if not tokens or the first one; of CoNLL its number, from 1."},
      {"label_column_name", &N::label_column_name, kScript,
       "Column of the tags, if not NAME_tags or the second one; of CoNLL its number, of CoNLL-U its name."},
      {row_of("overwrite_cache"), &N::overwrite_cache},
      {row_of("preprocessing_num_workers"), &N::preprocessing_num_workers},
      {"max_seq_length",
       &N::max_seq_length,
       kScript,
       "Longest sentence in tokens, if not what the model takes; longer ones are cut (--stride).",
       {.low = 3, .high = kMostTokens}},
      {row_of("pad_to_max_length"), &N::pad_to_max_length},
      {"max_train_samples",
       &N::max_train_samples,
       kScript,
       "Use the first so many training sentences.",
       {.low = 1}},
      {"max_eval_samples",
       &N::max_eval_samples,
       kScript,
       "Use the first so many validation sentences.",
       {.low = 1}},
      {"max_predict_samples",
       &N::max_predict_samples,
       kScript,
       "Use the first so many test sentences.",
       {.low = 1}},
      {"label_all_tokens", &N::label_all_tokens, kScript,
       "Learn and score all tokens of a word, after the first with I- for B-, not only the first."},
      {"return_entity_level_metrics", &N::return_entity_level_metrics, kScript,
       "Precision, recall, F1 and number of each type of entity, too."},
      {row_of("config_overrides"), &N::config_overrides},
      {"stride",
       &N::stride,
       kOwn,
       "Longer sentences become windows that share so many tokens, and each word is labelled in one of them.",
       {.low = 0, .high = kMostTokens}},
  });
  return fields;
}

}  // namespace lathe
