#include "lathe/settings/argument_table_adapters.h"

namespace lathe {
namespace {

constexpr Grade M = Grade::kMust, S = Grade::kShould, L = Grade::kLater, X = Grade::kLathe;
constexpr Support kNoEffect = Support::kNoEffect;

constexpr double kMost = std::numeric_limits<int>::max();

const FieldRules kPadding = {.support = kNoEffect, .reason = "batches are packed, padding is never computed"};
const FieldRules kCache = {.support = kNoEffect, .reason = "tokenised data is not cached on disk"};
const FieldRules kRemoteCode = {.reason = "Lathe never runs code that comes with a model"};
const FieldRules kToken = {.support = Support::kWorks, .secret = true};
const FieldRules kSamples = {.low = 1};
const FieldRules kOfScript = {.support = Support::kWorks};
const FieldRules kWorkers = {.support = kNoEffect, .reason = "all threads tokenise"};

}  // namespace

const std::vector<Field<GlueArguments>>& glue_fields() {
  using G = GlueArguments;
  static const std::vector<Field<G>> fields = with_adapter_rows<G>({
      {"model_name_or_path",
       &G::model_name_or_path,
       M,
       "Model folder, or a name on the Hugging Face Hub.",
       {.required = true, .first = true}},
      {"config_name", &G::config_name, M, "Folder or name of the config, if it is another."},
      {"tokenizer_name", &G::tokenizer_name, M, "Folder or name of the tokenizer, if it is another."},
      {"cache_dir", &G::cache_dir, M, "Where the Hub's cache lies, if not in HF_HOME."},
      {"use_fast_tokenizer",
       &G::use_fast_tokenizer,
       M,
       "The fast tokenizer.",
       {.support = kNoEffect, .reason = "the tokenizer is always the fast one"}},
      {"model_revision", &G::model_revision, M, "Branch, tag or commit of the model."},
      {"token", &G::token, L, "Token for the Hub, if not that of HF_TOKEN.", kToken},
      {"trust_remote_code", &G::trust_remote_code, L, "Run code from the Hub.", kRemoteCode},
      {"ignore_mismatched_sizes", &G::ignore_mismatched_sizes, M, "Replace a head whose size differs."},
      {"task_name",
       &G::task_name,
       M,
       "GLUE task.",
       {.choices = {"cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"}, .first = true}},
      {"dataset_name", &G::dataset_name, M, "Data set by its name on the Hugging Face Hub."},
      {"dataset_config_name", &G::dataset_config_name, M, "Its configuration, where it has several."},
      {"max_seq_length",
       &G::max_seq_length,
       M,
       "Longest input in tokens; longer ones are cut.",
       {.low = 3, .high = kMost}},
      {"overwrite_cache", &G::overwrite_cache, M, "Tokenise again.", kCache},
      {"pad_to_max_length", &G::pad_to_max_length, M, "Pad every sample to max_seq_length.", kPadding},
      {"max_train_samples", &G::max_train_samples, M, "Use the first so many training samples.", kSamples},
      {"max_eval_samples", &G::max_eval_samples, M, "Use the first so many validation samples.", kSamples},
      {"max_predict_samples", &G::max_predict_samples, M, "Use the first so many test samples.", kSamples},
      {"train_file",
       &G::train_file,
       M,
       "Own training data: csv, tsv, json, jsonl, parquet, or TREC's text.",
       {.first = true}},
      {"validation_file", &G::validation_file, M, "Own validation data.", {.first = true}},
      {"test_file", &G::test_file, M, "Own test data."},
      {"text_column_names", &G::text_column_names, S,
       "Columns of the text, with commas between their names; several are joined to one text.", kOfScript},
      {"text_column_delimiter", &G::text_column_delimiter, S, "What stands between joined columns.",
       kOfScript},
      {"label_column_name", &G::label_column_name, S, "Column of the labels, if not label.", kOfScript},
      {"remove_columns", &G::remove_columns, S, "Columns to leave out, with commas between their names.",
       kOfScript},
      {"remove_splits", &G::remove_splits, S,
       "Of train, validation and test those to leave out, with commas between.", kOfScript},
      {"train_split_name", &G::train_split_name, S, "Split of the data set to train on, if not train.",
       kOfScript},
      {"validation_split_name", &G::validation_split_name, S,
       "Split of the data set to evaluate on, if not validation.", kOfScript},
      {"test_split_name", &G::test_split_name, S, "Split of the data set to predict, if not test.",
       kOfScript},
      {"shuffle_train_dataset", &G::shuffle_train_dataset, S,
       "Shuffle the training rows before max_train_samples takes the first ones.", kOfScript},
      {"shuffle_seed",
       &G::shuffle_seed,
       S,
       "Seed of that shuffling.",
       {.support = Support::kWorks, .low = 0}},
      {"do_regression", &G::do_regression, S,
       "Labels are numbers to predict, or are not; if not given, they are where some are not whole.",
       kOfScript},
      {"metric_name",
       &G::metric_name,
       S,
       "Metric of the evaluation, if not accuracy, f1 (several labels) or mse (numbers).",
       {.support = Support::kWorks,
        .choices = {"accuracy", "f1", "precision", "recall", "matthews_correlation", "mse", "mae", "pearsonr",
                    "spearmanr"}}},
      {"preprocessing_num_workers", &G::preprocessing_num_workers, S, "Processes that tokenise.", kWorkers},
      {"config_overrides", &G::config_overrides, X,
       "Other values of config.json, as run_mlm.py takes them: "
       "'hidden_dropout_prob=0,classifier_dropout=0'."},
      {"data_dir", &G::data_dir, X, "Folder of the task's files, or its parent, in GLUE's layout."},
  });
  return fields;
}

const std::vector<Field<QaArguments>>& qa_fields() {
  using Q = QaArguments;
  static const std::vector<Field<Q>> fields = with_adapter_rows<Q>({
      {row_of("model_name_or_path"), &Q::model_name_or_path},
      {row_of("config_name"), &Q::config_name},
      {row_of("tokenizer_name"), &Q::tokenizer_name},
      {row_of("cache_dir"), &Q::cache_dir},
      {row_of("model_revision"), &Q::model_revision},
      {row_of("token"), &Q::token},
      {row_of("trust_remote_code"), &Q::trust_remote_code},
      {"dataset_name",
       &Q::dataset_name,
       M,
       "Data set by its name on the Hugging Face Hub: squad, squad_v2 or one like them.",
       {.first = true}},
      {row_of("dataset_config_name"), &Q::dataset_config_name},
      {"train_file",
       &Q::train_file,
       M,
       "Own training data in SQuAD's JSON, JSON Lines, or Parquet.",
       {.first = true}},
      {row_of("validation_file"), &Q::validation_file},
      {row_of("test_file"), &Q::test_file},
      {row_of("overwrite_cache"), &Q::overwrite_cache},
      {row_of("preprocessing_num_workers"), &Q::preprocessing_num_workers},
      {"max_seq_length",
       &Q::max_seq_length,
       M,
       "Longest input in tokens; longer ones become several.",
       {.low = 3, .high = kMost}},
      {row_of("pad_to_max_length"), &Q::pad_to_max_length},
      {row_of("max_train_samples"), &Q::max_train_samples},
      {row_of("max_eval_samples"), &Q::max_eval_samples},
      {row_of("max_predict_samples"), &Q::max_predict_samples},
      {"version_2_with_negative", &Q::version_2_with_negative, M, "Some questions have no answer (SQuAD 2)."},
      {"null_score_diff_threshold", &Q::null_score_diff_threshold, M,
       "No answer where its score leads by more than this."},
      {"doc_stride",
       &Q::doc_stride,
       M,
       "Tokens that two parts of a long context share.",
       {.low = 0, .high = kMost}},
      {"n_best_size", &Q::n_best_size, M, "Candidates kept per question.", {.low = 1, .high = kMost}},
      {"max_answer_length", &Q::max_answer_length, M, "Longest answer in tokens.", {.low = 1, .high = kMost}},
      {row_of("config_overrides"), &Q::config_overrides},
      {"data_dir", &Q::data_dir, X, "Folder of train-v1.1.json, dev-v1.1.json (or v2.0), also gzipped."},
  });
  return fields;
}

const std::vector<OldName>& old_names() {
  constexpr std::string_view kEngine = "mixed precision has one implementation here";
  constexpr std::string_view kGone = "";
  static const std::vector<OldName> names = {
      {"no_cuda", Kind::kBool, false, "use_cpu", true},
      {"use_mps_device", Kind::kBool, false, "device", "mps",
       "it is no longer needed: on a Mac, mps is what --device auto takes"},
      {"use_ipex", Kind::kBool, false, {}, {}, "native CPU kernels are always on"},
      {"evaluation_strategy", Kind::kText, "no", "eval_strategy"},
      {"per_gpu_train_batch_size", Kind::kInt, nullptr, "per_device_train_batch_size", {}, {}, true},
      {"per_gpu_eval_batch_size", Kind::kInt, nullptr, "per_device_eval_batch_size", {}, {}, true},
      {"group_by_length", Kind::kBool, false, "train_sampling_strategy", "group_by_length"},
      {"adafactor", Kind::kBool, false, "optim", "adafactor"},
      {"fp16_backend", Kind::kText, "auto", {}, {}, kEngine},
      {"half_precision_backend", Kind::kText, "auto", {}, {}, kEngine},
      {"fp16_opt_level", Kind::kText, "O1", {}, {}, kEngine},
      {"push_to_hub_token", Kind::kText, nullptr, "hub_token"},
      {"push_to_hub_model_id", Kind::kText, nullptr, "hub_model_id"},
      {"push_to_hub_organization", Kind::kText, nullptr, "hub_model_id"},
      {"include_tokens_per_second", Kind::kBool, false, "include_num_input_tokens_seen", "all"},
      {"include_inputs_for_metrics", Kind::kBool, false, "include_for_metrics",
       nlohmann::json::array({"inputs"})},
      {"jit_mode_eval", Kind::kBool, false, {}, {}, "evaluation is always compiled"},
      {"torchdynamo", Kind::kText, nullptr, {}, {}, "the native step is one compiled program already"},
      {.name = "use_auth_token",
       .kind = Kind::kText,
       .default_value = nullptr,
       .to = "token",
       .switches = true},
      {"past_index", Kind::kInt, -1, {}, {}, kGone},
      {"mp_parameters", Kind::kText, "", {}, {}, kGone},
      {"ray_scope", Kind::kText, "last", {}, {}, kGone},
      {"use_legacy_prediction_loop", Kind::kBool, false, {}, {}, kGone},
      {"_n_gpu", Kind::kInt, nullptr, {}, {}, kGone},
      {"tpu_num_cores", Kind::kInt, nullptr, {}, {}, kGone},
      {"tpu_metrics_debug", Kind::kBool, false, {}, {}, kGone},
      {"fsdp_min_num_params", Kind::kInt, 0, {}, {}, kGone},
      {"fsdp_transformer_layer_cls_to_wrap", Kind::kText, nullptr, {}, {}, kGone},
      {"dispatch_batches", Kind::kBool, nullptr, {}, {}, kGone},
      {"split_batches", Kind::kBool, nullptr, {}, {}, kGone},
  };
  return names;
}

}  // namespace lathe
