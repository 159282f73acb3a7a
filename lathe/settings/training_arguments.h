#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"

namespace lathe {

/// How a run trains, under the names and defaults of Hugging Face's TrainingArguments.  The meaning of each
/// member is in the table of fields (argument_table.h), which also feeds the command line and the docs.
/// `*_steps` are update steps, or a share of the run if below 1; an empty optional is Python's None.
struct TrainingArguments {
  std::optional<std::string> output_dir;
  bool overwrite_output_dir = false;
  bool do_train = false, do_eval = false, do_predict = false;

  int64_t per_device_train_batch_size = 8, per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;  ///< above 0: overrides num_train_epochs

  double learning_rate = 5e-5;
  std::optional<double> head_learning_rate;  ///< of the parameters outside of the base
  std::string lr_scheduler_type = "linear";
  nlohmann::json lr_scheduler_kwargs;  ///< null or an object
  double warmup_steps = 0;
  double warmup_ratio = 0;  ///< used if warmup_steps is 0
  std::string optim = "adamw_torch_fused";
  std::optional<std::string> optim_args;
  double weight_decay = 0, adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  ///< 0: no clipping
  double label_smoothing_factor = 0;

  bool bf16 = false, fp16 = false, fp8 = false, bf16_full_eval = false, fp16_full_eval = false;
  std::optional<bool> tf32, activation_checkpointing, gradient_checkpointing;
  nlohmann::json activation_checkpointing_kwargs, gradient_checkpointing_kwargs;  ///< null or an object
  bool average_tokens_across_devices = true;
  bool auto_find_batch_size = false;

  std::string logging_strategy = "steps";
  double logging_steps = 500;
  bool logging_first_step = false;
  /// If given, a loss that is not finite does not stop the run; true (transformers' default) keeps it out of
  /// the logged means.
  std::optional<bool> logging_nan_inf_filter;
  std::string include_num_input_tokens_seen = "no";
  std::string log_level = "passive", log_level_replica = "warning";  ///< of rank 0, of the others
  std::optional<bool> disable_tqdm;
  std::vector<std::string> report_to = {"none"};
  std::optional<std::string> run_name, logging_dir;

  std::string eval_strategy = "no";
  std::optional<double> eval_steps;
  double eval_delay = 0;
  bool prediction_loss_only = false, eval_on_start = false;

  std::string save_strategy = "steps";
  double save_steps = 500;
  std::optional<int64_t> save_total_limit;
  bool save_only_model = false, save_safetensors = true;
  bool load_best_model_at_end = false;
  std::optional<std::string> metric_for_best_model;
  std::optional<bool> greater_is_better;
  bool push_to_hub = false;
  std::optional<std::string> hub_model_id, hub_token, hub_revision;
  std::optional<bool> hub_private_repo;
  std::string hub_strategy = "every_save";
  bool ignore_data_skip = false;
  std::optional<std::string> resume_from_checkpoint;
  std::optional<std::string> resume;  ///< "auto": the newest checkpoint in output_dir, if there is one

  bool full_determinism = false;
  int64_t seed = 42;
  std::optional<int64_t> data_seed;

  bool dataloader_drop_last = false;
  int64_t dataloader_num_workers = 0;
  bool dataloader_pin_memory = true, remove_unused_columns = true;
  std::optional<int64_t> dataloader_prefetch_factor;
  std::optional<std::vector<std::string>> label_names;
  std::string train_sampling_strategy = "random";
  nlohmann::json accelerator_config;  ///< null or an object
  std::string length_column_name = "length";
  bool skip_memory_metrics = true;

  std::string device = "auto";  ///< auto, cpu, cuda or mps
  bool use_cpu = false;
  int64_t threads = 0;                     ///< 0: one per usable core
  std::optional<std::string> ddp_backend;  ///< nccl for cuda, else gloo, ring or mpi
  std::optional<int64_t> ddp_bucket_cap_mb;
  int64_t ddp_timeout = 1800;  ///< seconds
  int64_t zero_stage = 0;      ///< or 1: each process holds its part of the optimizer's states
  bool freeze_base_model = false;
  bool int8 = false;                  ///< evaluate and predict with linear layers in 8-bit integers
  bool hf_compat_loss_scale = false;  ///< the loss scale of transformers 5 under accumulation
  std::optional<int64_t> early_stopping_patience;
  double early_stopping_threshold = 0;
  bool print_config = false;

  /// Values of the fields that only the table knows, by name; those at their default need not be there.
  std::map<std::string, nlohmann::json> other;
};

/// The value of a field by its name, as JSON.  So a field that one file reads needs no member: its row in the
/// table says all.  Errors: throws kInternal if the table has no such row.
nlohmann::json value_of(const TrainingArguments& args, std::string_view name);

/// Arguments of a LoRA adapter, which all scripts have.
struct AdapterArguments {
  bool use_peft = false;
  int64_t lora_r = 8, lora_alpha = 8;
  double lora_dropout = 0;
  std::optional<std::vector<std::string>> lora_target_modules, lora_modules_to_save;
  bool use_rslora = false;
};

/// Model and data arguments of run_glue.py and run_classification.py.
struct GlueArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  bool use_fast_tokenizer = true;
  std::string model_revision = "main";
  bool trust_remote_code = false, ignore_mismatched_sizes = false;

  std::optional<std::string> task_name, dataset_name, dataset_config_name, data_dir;
  int64_t max_seq_length = 128;
  bool overwrite_cache = false, pad_to_max_length = true;
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
  std::optional<std::string> train_file, validation_file, test_file;

  std::optional<bool> do_regression;
  std::optional<std::string> text_column_names, label_column_name, remove_columns;  ///< names between commas
  std::string text_column_delimiter = " ";
  std::optional<std::string> train_split_name, validation_split_name, test_split_name, remove_splits;
  bool shuffle_train_dataset = false;
  int64_t shuffle_seed = 42;
  std::optional<std::string> metric_name;
  std::optional<int64_t> preprocessing_num_workers;
};

/// Model and data arguments of run_qa.py.
struct QaArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  std::string model_revision = "main";
  bool trust_remote_code = false;

  std::optional<std::string> dataset_name, dataset_config_name, data_dir;
  std::optional<std::string> train_file, validation_file, test_file;
  bool overwrite_cache = false, pad_to_max_length = true;
  std::optional<int64_t> preprocessing_num_workers;
  int64_t max_seq_length = 384, doc_stride = 128;
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
  bool version_2_with_negative = false;
  double null_score_diff_threshold = 0;
  int64_t n_best_size = 20, max_answer_length = 30;
};

/// Model and data arguments of run_ner.py.
struct NerArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  std::string model_revision = "main";
  bool trust_remote_code = false, ignore_mismatched_sizes = false;

  std::string task_name = "ner";
  std::optional<std::string> dataset_name, dataset_config_name;
  std::optional<std::string> train_file, validation_file, test_file;
  std::optional<std::string> text_column_name, label_column_name;
  bool overwrite_cache = false, pad_to_max_length = false;
  std::optional<int64_t> preprocessing_num_workers;
  std::optional<int64_t> max_seq_length;  ///< none: what tokenizer and model take
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
  bool label_all_tokens = false, return_entity_level_metrics = false;
  std::optional<int64_t> stride;  ///< none: longer sentences are cut
};

/// Model and data arguments of run_swag.py.
struct SwagArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  bool use_fast_tokenizer = true;
  std::string model_revision = "main";
  bool trust_remote_code = false, ignore_mismatched_sizes = false;

  std::optional<std::string> dataset_name, dataset_config_name;
  std::optional<std::string> train_file, validation_file, test_file;
  std::optional<std::string> context_column_name, question_column_name, endings_column_name;
  std::optional<std::string> label_column_name;
  bool overwrite_cache = false, pad_to_max_length = false;
  std::optional<int64_t> preprocessing_num_workers;
  std::optional<int64_t> max_seq_length;  ///< none: what the tokenizer takes, 1,024 at most
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
};

/// Arguments of lathe embed: those of sentence-transformers' losses, and of the scripts.
struct EmbedArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  std::string model_revision = "main";
  bool trust_remote_code = false;

  std::optional<std::string> dataset_name, dataset_config_name;
  std::optional<std::string> train_file, validation_file, test_file;
  std::optional<std::string> queries_file, corpus_file, qrels_file;
  std::optional<std::string> text_column_names, label_column_name;  ///< names between commas
  std::optional<int64_t> max_seq_length;                            ///< none: as the model says
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
  std::optional<std::string> pooling_mode;  ///< of an encoder without modules; names between commas
  std::optional<std::string> prompts;       ///< a text, or a JSON object of texts by columns
  std::string batch_sampler = "batch_sampler";

  std::optional<std::string> loss;  ///< none: by the columns of the data
  double scale = 20;
  bool symmetric = false, gather_across_devices = false;
  int64_t mini_batch_size = 32;
  double margin = 0.5, triplet_margin = 5;     ///< of ContrastiveLoss, of TripletLoss
  std::optional<std::string> distance_metric;  ///< none: cosine of ContrastiveLoss, euclidean of TripletLoss
  bool size_average = true;
  std::optional<std::string> matryoshka_dims, matryoshka_weights;  ///< numbers between commas
};

/// Model and data arguments of lathe rerank.
struct RerankArguments : AdapterArguments {
  std::string model_name_or_path;
  std::optional<std::string> config_name, config_overrides, tokenizer_name, cache_dir, token;
  std::string model_revision = "main";
  bool ignore_mismatched_sizes = false;

  std::optional<std::string> dataset_name, dataset_config_name;
  std::optional<std::string> train_file, validation_file, test_file;
  std::optional<std::string> text_column_names, label_column_name;
  std::optional<std::string> loss;  ///< none: BinaryCrossEntropyLoss, of a model of classes CrossEntropyLoss
  std::optional<std::string> activation_fn;  ///< none: the model's, else as the loss has it
  bool pad_to_max_length = false;
  std::optional<int64_t> max_seq_length;  ///< none: what the model takes
  std::optional<int64_t> max_train_samples, max_eval_samples, max_predict_samples;
};

/// Those that run_mlm.py and run_clm.py share.
struct LmArguments : AdapterArguments {
  std::optional<std::string> model_name_or_path;  ///< none: from scratch
  std::optional<std::string> model_type, config_overrides, config_name, tokenizer_name, cache_dir, token;
  bool use_fast_tokenizer = true;
  std::string model_revision = "main";
  bool trust_remote_code = false, low_cpu_mem_usage = false;
  std::optional<std::string> dtype;

  std::optional<std::string> dataset_name, dataset_config_name;
  std::optional<std::string> train_file, validation_file;
  bool overwrite_cache = false;
  int64_t validation_split_percentage = 5;
  std::optional<int64_t> preprocessing_num_workers;
  std::optional<int64_t> max_train_samples, max_eval_samples;
  bool streaming = false;
};

/// Model and data arguments of run_clm.py.
struct ClmArguments : LmArguments {
  std::optional<int64_t> block_size;  ///< none: what the tokenizer takes, 1,024 at most
  bool keep_linebreaks = true;
};

/// Model and data arguments of run_mlm.py.
struct MlmArguments : LmArguments {
  std::optional<int64_t> max_seq_length;  ///< none: what the tokenizer takes, 1,024 at most
  double mlm_probability = 0.15;
  bool line_by_line = false, pad_to_max_length = false;
};

/// Checks every field and every rule between fields, and fills in what one field derives from another
/// (eval_strategy turns do_eval on, the default metric of the best model, ...), as TrainingArguments'
/// __post_init__ does.  Calling it twice changes nothing.  Returns one-line notices for the user.
/// Errors: kUsage, naming the flag, the value found and the values allowed.
/// Source: transformers 5.23 training_args.py, __post_init__ and _validate_args.
std::vector<std::string> validate(TrainingArguments& args);
/// Where only the head is trained and no learning rate was given (`given`: the names of the flags that were),
/// sets kHeadOnlyRate and returns a notice.  Before validate.
std::optional<std::string> derive_head_rate(TrainingArguments& args, const std::set<std::string_view>& given);
inline constexpr double kHeadOnlyRate = 2e-2;
/// The same for a trainer without a script.  It need not write, and evaluates only when it is called to:
/// output_dir stays as given, and do_eval and do_predict are not checked.
std::vector<std::string> validate_for_trainer(TrainingArguments& args);

/// The same for the arguments of the scripts: every field, and whether there is data for each task.
std::vector<std::string> validate(GlueArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(QaArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(NerArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(SwagArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(RerankArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(MlmArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(ClmArguments& args, const TrainingArguments& training);
std::vector<std::string> validate(EmbedArguments& args, const TrainingArguments& training);

/// In the backward pass one layer out of this many recomputes its activations; 0: all are kept.
int64_t recompute_every(const TrainingArguments& args);

/// A setting of accelerator_config; `otherwise` if it is not given.
bool accelerator_setting(const TrainingArguments& args, const std::string& name, bool otherwise);

/// The optimizer that optim, optim_args and weight_decay ask for.  Errors: kUsage, naming the setting.
/// Source: transformers 5.23 trainer_optimizer.py.
OptimizerOptions optimizer_of(const TrainingArguments& args);

/// What the precision flags mean on the chosen device ("cpu", "cuda", "mps"), if the user must know.
/// native_bf16: of the CPU, as CpuLevels says.
std::vector<std::string> precision_notices(const TrainingArguments& args, std::string_view device,
                                           bool native_bf16);

/// The dtype of activations: bf16 and f16 for autocast; with fp8 bf16.
DType training_dtype(const TrainingArguments& args);
/// The dtype of products in linear layers, in training and in evaluation: kFp8 in both, kInt8 only in
/// evaluation.
nn::Quantization training_quantization(const TrainingArguments& args);
nn::Quantization evaluation_quantization(const TrainingArguments& args);
/// "int8", "fp8", or "" for none.
std::string_view name_of(nn::Quantization quantization);
/// The dtype of activations in evaluation: "bf16", "fp16" or "fp32".
std::string_view precision_name(const TrainingArguments& args);

/// Update steps of warmup in a run of `training_steps`.  Source: TrainingArguments.get_warmup_steps, with
/// warmup_ratio of version 4 if warmup_steps is 0.
int64_t warmup_steps(const TrainingArguments& args, int64_t training_steps);

/// logging_steps, eval_steps or save_steps as a number of steps: a share of the run if below 1.
/// Source: TrainerState.compute_steps.
int64_t interval_steps(double steps, int64_t training_steps);

}  // namespace lathe
