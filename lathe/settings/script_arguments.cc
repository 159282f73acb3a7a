// What the scripts' arguments must fulfil together.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lathe/core/error.h"
#include "lathe/settings/argument_table.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {
namespace {

/// A name comes before own files, as in run_glue and run_qa.  name: the flag that gives it; empty: none does.
template <typename Arguments>
void note_unread_files(const Arguments& args, const std::string& name, std::vector<std::string>& notices) {
  const auto note = [&](const char* flag, const std::optional<std::string>& file) {
    if (file && !name.empty())
      notices.push_back(fmt::format("--{} is not read: --{} names the data; give one of them", flag, name));
  };
  note("train_file", args.train_file);
  note("validation_file", args.validation_file);
  if constexpr (requires { args.test_file; }) note("test_file", args.test_file);
}

void lower(std::string& name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

/// Errors: kUsage for an adapter of a base that --freeze_base_model freezes.
void check_adapter(const AdapterArguments& args, const TrainingArguments& training,
                   std::vector<std::string>& notices) {
  if (args.use_peft && training.freeze_base_model)
    fail(ErrorCode::kUsage,
         "--use_peft and --freeze_base_model: found both, expected one of them: an adapter trains within the "
         "frozen base, the other only the head");
  const AdapterArguments none;
  const bool given = args.lora_r != none.lora_r || args.lora_alpha != none.lora_alpha ||
                     args.lora_dropout != none.lora_dropout || args.lora_target_modules ||
                     args.lora_modules_to_save || args.use_rslora;
  if (given && !args.use_peft)
    notices.emplace_back("--lora_*, --use_rslora: not read without --use_peft, which trains an adapter");
}

void note_nothing_to_do(const TrainingArguments& training, std::vector<std::string>& notices) {
  if (training.do_train || training.do_eval || training.do_predict) return;
  notices.push_back("there is nothing to do: pass --do_train, --do_eval and/or --do_predict");
}

/// Own files in place of a named data set: one for each thing that is to be done.
template <typename A>
void check_files(const A& args, const TrainingArguments& training, std::string_view instead) {
  const auto need = [&](bool wanted, const std::optional<std::string>& file, const std::string& doing,
                        std::string_view flag) {
    if (!wanted || file) return;
    fail(ErrorCode::kUsage, "--{}: found neither {} nor --{}, expected one of them", doing, instead, flag);
  };
  need(training.do_train, args.train_file, "do_train", "train_file");
  need(training.do_eval, args.validation_file,
       training.eval_strategy == "no" ? "do_eval" : "eval_strategy " + training.eval_strategy,
       "validation_file");
  if constexpr (requires { args.test_file; })
    need(training.do_predict, args.test_file, "do_predict", "test_file");
}

/// Of own files or a data set of the Hub.
template <typename Script>
std::vector<std::string> validate_files(Script& args, const TrainingArguments& training) {
  std::vector<std::string> notices = check_fields(bind(args));
  if (!args.dataset_name) check_files(args, training, "--dataset_name");
  note_unread_files(args, args.dataset_name ? "dataset_name" : "", notices);
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

/// Of a script of language models.  why_no_test: what --do_predict is told.
template <typename Script>
std::vector<std::string> validate_texts(Script& args, const TrainingArguments& training,
                                        const char* why_no_test) {
  std::vector<std::string> notices = check_fields(bind(args));
  if (!args.model_name_or_path && !args.config_name && !args.model_type)
    fail(ErrorCode::kUsage,
         "--model_name_or_path: found none, expected a model, or --model_type or --config_name to train one "
         "from scratch");
  if (!args.model_name_or_path && !args.tokenizer_name)
    fail(ErrorCode::kUsage,
         "--tokenizer_name: found none, expected the tokenizer of a model that begins from scratch");
  if (args.model_type && (args.model_name_or_path || args.config_name))
    notices.emplace_back("--model_type is not read: --model_name_or_path or --config_name says what it is");
  if (!args.dataset_name) {
    if (training.do_train && !args.train_file)
      fail(ErrorCode::kUsage,
           "--do_train: found neither --dataset_name nor --train_file, expected one of them");
    if (training.do_eval && !args.train_file && !args.validation_file)
      fail(ErrorCode::kUsage,
           "--do_eval: found none of --dataset_name, --validation_file and --train_file, expected one of "
           "them");
  }
  note_unread_files(args, args.dataset_name ? "dataset_name" : "", notices);
  if (training.do_predict) notices.emplace_back(why_no_test);
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

}  // namespace

std::vector<std::string> validate(GlueArguments& args, const TrainingArguments& training) {
  if (args.task_name) lower(*args.task_name);
  std::vector<std::string> notices = check_fields(bind(args));
  if (!args.task_name && !args.dataset_name) check_files(args, training, "--task_name");
  note_unread_files(args, args.task_name ? "task_name" : args.dataset_name ? "dataset_name" : "", notices);
  for (const auto& [flag, value] : {std::pair{"text_column_names", &args.text_column_names},
                                    {"label_column_name", &args.label_column_name},
                                    {"remove_columns", &args.remove_columns},
                                    {"metric_name", &args.metric_name}})
    if (*value && args.task_name)
      notices.push_back(fmt::format("--{} is not read: --task_name says what it is", flag));
  if (args.text_column_delimiter != GlueArguments().text_column_delimiter && !args.text_column_names)
    notices.emplace_back(
        "--text_column_delimiter is not read: --text_column_names says which columns it joins");
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

std::vector<std::string> validate(QaArguments& args, const TrainingArguments& training) {
  std::vector<std::string> notices = check_fields(bind(args));
  if (!args.dataset_name) check_files(args, training, "--dataset_name");
  if (training.prediction_loss_only && (training.do_eval || training.do_predict))
    fail(ErrorCode::kUsage,
         "--prediction_loss_only: evaluations of questions have no loss, as in run_qa; leave it out");
  note_unread_files(args, args.dataset_name ? "dataset_name" : "", notices);
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

std::vector<std::string> validate(NerArguments& args, const TrainingArguments& training) {
  lower(args.task_name);
  return validate_files(args, training);
}

std::vector<std::string> validate(RerankArguments& args, const TrainingArguments& training) {
  return validate_files(args, training);
}

std::vector<std::string> validate(SwagArguments& args, const TrainingArguments& training) {
  std::vector<std::string> notices = check_fields(bind(args));
  const bool own_files = args.train_file || args.validation_file || args.test_file;
  if (!args.dataset_name && own_files)
    check_files(args, training, "--dataset_name");  // else the data are SWAG
  note_unread_files(args, args.dataset_name ? "dataset_name" : "", notices);
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

std::vector<std::string> validate(EmbedArguments& args, const TrainingArguments& training) {
  std::vector<std::string> notices = check_fields(bind(args));
  if (!args.dataset_name) check_files(args, training, "--dataset_name");
  note_unread_files(args, args.dataset_name ? "dataset_name" : "", notices);
  const int retrieval =
      args.queries_file.has_value() + args.corpus_file.has_value() + args.qrels_file.has_value();
  if (retrieval != 0 && retrieval != 3)
    fail(ErrorCode::kUsage,
         "--queries_file, --corpus_file and --qrels_file: found {} of them, expected all: the queries, the "
         "documents, and which belong together",
         retrieval);
  if (args.scale == 0) fail(ErrorCode::kUsage, "--scale: found 0, expected more");
  check_adapter(args, training, notices);
  note_nothing_to_do(training, notices);
  return notices;
}

std::vector<std::string> validate(MlmArguments& args, const TrainingArguments& training) {
  return validate_texts(
      args, training,
      "--do_predict changes nothing here: run_mlm.py has no test data; lathe predict fills masks");
}

std::vector<std::string> validate(ClmArguments& args, const TrainingArguments& training) {
  return validate_texts(args, training, "--do_predict changes nothing here: run_clm.py has no test data");
}

}  // namespace lathe
