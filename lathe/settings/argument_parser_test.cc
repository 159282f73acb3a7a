#include "lathe/settings/argument_parser.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lathe/core/error.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

using WordList = std::vector<std::string>;

/// The words of a command line that needs no quotes.
WordList words(const std::string& text) {
  std::istringstream in(text);
  WordList out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

CommandLine<GlueArguments> parsed(const std::string& text) {
  CommandLine<GlueArguments> line;
  line.notices = parse_arguments(line.fields(), words(text)).notices;
  return line;
}

std::string error_of(const WordList& args) {
  try {
    CommandLine<GlueArguments> line;
    parse_arguments(line.fields(), args);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(ArgumentParser, TheGlueCommandOfTheTutorials) {
  const auto line = parse_command_line<GlueArguments>(words(
      "--model_name_or_path bert-base-cased --task_name mrpc --do_train --do_eval --max_seq_length 128 "
      "--per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3 --output_dir /tmp/mrpc/ "
      "--overwrite_output_dir"));
  EXPECT_TRUE(line.notices.empty());
  EXPECT_EQ(line.script.model_name_or_path, "bert-base-cased");
  EXPECT_EQ(line.script.task_name, "mrpc");
  EXPECT_TRUE(line.training.do_train && line.training.do_eval && line.training.overwrite_output_dir);
  EXPECT_FALSE(line.training.do_predict);
  EXPECT_EQ(line.training.per_device_train_batch_size, 32);
  EXPECT_EQ(line.training.learning_rate, 2e-5);
  EXPECT_EQ(line.training.num_train_epochs, 3.0);
  EXPECT_EQ(line.training.output_dir, "/tmp/mrpc/");
}

TEST(ArgumentParser, TheQaCommandOfTheTutorials) {
  const auto line = parse_command_line<QaArguments>(
      words("--model_name_or_path bert-base-uncased --dataset_name squad --do_train --do_eval "
            "--per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 "
            "--doc_stride 128 --output_dir /tmp/debug_squad/ --use_ipex --bf16 --use_cpu"));
  EXPECT_EQ(line.notices, WordList({"--use_ipex changes nothing here: native CPU kernels are always on"}));
  EXPECT_EQ(line.script.dataset_name, "squad");
  EXPECT_TRUE(line.training.bf16);
  EXPECT_EQ(line.training.device, "cpu");
}

TEST(ArgumentParser, SpellingsOfOneFlag) {
  for (const auto* text : {"--max_steps 7", "--max-steps 7", "--max_steps=7", "--max-steps=7", "--max_st 7",
                           "--max_steps 3 --max_steps 7"}) {
    EXPECT_EQ(parsed(text).training.max_steps, 7) << text;
  }
  EXPECT_EQ(parsed("--max_steps -1").training.max_steps, -1);
}

TEST(ArgumentParser, BoolsTakeNoValueOrOne) {
  for (const auto* yes :
       {"--bf16", "--bf16 true", "--bf16=Yes", "--bf16 1", "--bf16 --do_train", "--bf16 0 --bf16 t"}) {
    EXPECT_TRUE(parsed(yes).training.bf16) << yes;
  }
  for (const auto* no : {"--bf16 false", "--bf16=NO", "--bf16 0", "--bf16 --bf16 f"}) {
    EXPECT_FALSE(parsed(no).training.bf16) << no;
  }
  EXPECT_EQ(parsed("").training.logging_nan_inf_filter, std::nullopt);
  EXPECT_EQ(parsed("--logging_nan_inf_filter").training.logging_nan_inf_filter, true);
  EXPECT_EQ(parsed("--no_logging_nan_inf_filter").training.logging_nan_inf_filter, false);
  EXPECT_EQ(parsed("--no-logging-nan-inf-filter").training.logging_nan_inf_filter, false);
  EXPECT_FALSE(parsed("--pad_to_max_length False").script.pad_to_max_length);
  EXPECT_EQ(parsed("--disable_tqdm true").training.disable_tqdm, true);
  EXPECT_EQ(error_of({"--do_train", "maybe"}), "--do_train: found 'maybe', expected true or false");
  EXPECT_EQ(error_of({"--no_logging_nan_inf_filter=1"}),
            "--no_logging_nan_inf_filter: found a value, expected none");
  EXPECT_NE(error_of({"--no_bf16"}).find("unknown flag"),
            std::string::npos);  // false by default: has no --no_
}

TEST(ArgumentParser, PrefixesHaveToBeUnique) {
  EXPECT_TRUE(parsed("--do_tr").training.do_train);
  EXPECT_EQ(
      error_of({"--do_"}),
      "--do_: could be any of --do_regression, --do_train, --do_eval, --do_predict; write out one of them");
  EXPECT_EQ(parsed("--evaluation_strat epoch").training.eval_strategy, "epoch");  // of an old name
  // 'data_d' would also begin Lathe's own data_dir, which stands back.
  EXPECT_EQ(parsed("--data_d x").script.data_dir, "x");
  EXPECT_EQ(parsed("--resume_f x").training.resume_from_checkpoint, "x");
}

TEST(ArgumentParser, ListsDictsAndTextsThatLookLikeFlags) {
  EXPECT_EQ(parsed("--report_to none tensorboard --do_eval").training.report_to,
            WordList({"none", "tensorboard"}));
  EXPECT_EQ(parsed("--lr_scheduler_kwargs {\"min_lr\":1e-6}").training.lr_scheduler_kwargs["min_lr"], 1e-6);
  CommandLine<GlueArguments> line;
  parse_arguments(line.fields(), {"--run_name", "-a run", "--train_file=--odd"});
  EXPECT_EQ(line.training.run_name, "-a run");
  EXPECT_EQ(line.script.train_file, "--odd");
}

TEST(ArgumentParser, AListEndsAtAFlagWhoseValueHasABlank) {
  TrainingArguments args;
  parse_arguments(bind(args), {"--report_to", "html", "--run_name=my run"});
  EXPECT_EQ(args.report_to, WordList({"html"}));
  EXPECT_EQ(args.run_name, "my run");
}

TEST(ArgumentParser, UnknownFlagsNameTheirNearest) {
  EXPECT_EQ(error_of({"--lerning_rate", "1"}), "--lerning_rate: unknown flag; did you mean --learning_rate?");
  EXPECT_EQ(error_of({"--max-seq-lenght=3"}),
            "--max_seq_lenght: unknown flag; did you mean --max_seq_length?");
  EXPECT_EQ(
      error_of({"--batch_size", "3"}),
      "--batch_size: unknown flag; did you mean --per_device_train_batch_size or --auto_find_batch_size or "
      "--per_device_eval_batch_size?");
  EXPECT_EQ(error_of({"--xyzzy"}), "--xyzzy: unknown flag; --help lists all");
}

TEST(ArgumentParser, MissingValuesAndStrayWords) {
  EXPECT_EQ(error_of({"--learning_rate"}), "--learning_rate: found no value, expected one (float)");
  EXPECT_EQ(error_of({"--learning_rate", "--do_train"}),
            "--learning_rate: found no value, expected one (float)");
  EXPECT_EQ(error_of({"--learning_rate", "fast"}), "--learning_rate: found 'fast', expected a number");
  EXPECT_NE(error_of({"mrpc", "--do_train"}).find("found 'mrpc', expected a flag"), std::string::npos);
  EXPECT_NE(error_of({"-x"}).find("found '-x', expected a flag"), std::string::npos);
  EXPECT_NE(error_of({"--"}).find("unknown flag"), std::string::npos);
  EXPECT_NE(error_of({"--=3"}).find("unknown flag"), std::string::npos);
  EXPECT_NE(error_of({""}).find("found ''"), std::string::npos);
}

TEST(ArgumentParser, OldNamesAreMappedWithANotice) {
  auto line = parsed("--no_cuda --evaluation_strategy epoch --warmup_ratio 0.1 --logging_dir x");
  EXPECT_TRUE(line.training.use_cpu);
  EXPECT_EQ(line.training.eval_strategy, "epoch");
  EXPECT_EQ(line.training.warmup_ratio, 0.1);
  EXPECT_EQ(line.notices, WordList({"--no_cuda is an old name: taken as --use_cpu True",
                                    "--evaluation_strategy is an old name: taken as --eval_strategy epoch"}));
  line = parsed("--use_mps_device");
  EXPECT_EQ(line.training.device, "mps");
  EXPECT_NE(line.notices.at(0).find("no longer needed"), std::string::npos) << line.notices.at(0);
  EXPECT_FALSE(parsed("--no_cuda false").training.use_cpu);
  EXPECT_EQ(parsed("--adafactor").training.optim, "adafactor");
  EXPECT_EQ(parsed("--include_tokens_per_second").training.include_num_input_tokens_seen, "all");
  EXPECT_EQ(parsed("--group_by_length").training.train_sampling_strategy, "group_by_length");
  EXPECT_TRUE(parsed("--use_ipex false --fp16_backend auto --past_index -1").notices.empty());
  EXPECT_EQ(parsed("--fp16_backend apex").notices.size(), 1u);
}

TEST(ArgumentParser, ATextThatWasABooleanTakesOne) {
  const auto counted = [](const std::string& words) {
    return parsed(words).training.include_num_input_tokens_seen;
  };
  for (const char* yes : {"", "=True", " true", " all"})
    EXPECT_EQ(counted(std::string("--include_num_input_tokens_seen") + yes), "all") << yes;
  for (const char* no : {"=False", " false", " no"})
    EXPECT_EQ(counted(std::string("--include_num_input_tokens_seen") + no), "no") << no;
  EXPECT_EQ(counted("--include_num_input_tokens_seen --do_train"), "all");
  const TestFolder folder;
  std::ofstream(folder / "run.json") << R"({"include_num_input_tokens_seen": true})";
  EXPECT_EQ(counted(folder / "run.json"), "all");
}

TEST(ArgumentParser, TheOldNameOfTheTokenTakesItWithoutShowingIt) {
  const auto line = parsed("--use_auth_token hf_X --do_train");
  EXPECT_EQ(line.script.token, "hf_X");
  EXPECT_EQ(line.notices, WordList({"--use_auth_token is an old name: taken as --token (hidden)"}));
  for (const auto* text :
       {"--use_auth_token --do_train", "--use_auth_token true", "--use_auth_token=False"}) {
    EXPECT_EQ(parsed(text).script.token, std::nullopt) << text;  // Python's token of before is used anyway
    EXPECT_TRUE(parsed(text).notices.empty()) << text;
  }
}

/// TrainingArguments.to_json_string() of transformers 5.24 and, with lists for --fsdp, 4.x.
TEST(ArgumentParser, TextsThatTransformersWritesAsListsAndHiddenTokens) {
  const TestFolder folder;
  const auto read = [&](const std::string& json) {
    std::ofstream(folder / "run.json") << json;
    return parsed(folder / "run.json");
  };
  const auto line = read(R"({"debug": [], "fsdp": [], "hub_token": "<HUB_TOKEN>", "token": "<TOKEN>",
                             "push_to_hub_token": "<PUSH_TO_HUB_TOKEN>"})");
  EXPECT_EQ(line.notices.size(), 1u);
  EXPECT_NE(line.notices.at(0).find("token was left out where"), std::string::npos) << line.notices.at(0);
  EXPECT_EQ(line.script.token, std::nullopt);
  TrainingArguments training = line.training;
  training.output_dir = "out";
  EXPECT_TRUE(validate(training).empty());
  training = read(R"({"debug": ["underflow_overflow"]})").training;
  EXPECT_EQ(training.other.at("debug"), "underflow_overflow");  // which validate refuses, saying why
  EXPECT_THROW(read(R"({"run_name": []})"), Error);
}

TEST(ArgumentParser, AFlagThatIsNotThereSaysSoWhateverItsValue) {
  try {
    parse_command_line<GlueArguments>(
        words("--model_name_or_path m --task_name mrpc --do_train --output_dir o --deepspeed no_such.json"));
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not supported (DeepSpeed is"), std::string::npos)
        << error.what();
  }
}

TEST(ArgumentParser, PerGpuBatchSizeWinsWhereverItStands) {
  const auto line = parsed("--per_gpu_train_batch_size 4 --per_device_train_batch_size 16");
  EXPECT_EQ(line.training.per_device_train_batch_size, 4);
}

TEST(ArgumentParser, OldNamesOfWhatIsNotThereSaySo) {
  EXPECT_EQ(parsed("--push_to_hub_model_id me/it").training.hub_model_id, "me/it");
  EXPECT_EQ(error_of({"--tpu_num_cores", "8"}),
            "--tpu_num_cores: found 8, which is not supported; leave this flag of older versions out");
}

class ConfigFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  // The name holds the process id: tests run at the same time, and a sanitizer's heap gives all of them one
  // address.
  std::string path_ = testing::TempDir() + "lathe_config_" + std::to_string(getpid()) + ".json";
};

TEST_F(ConfigFile, OneLoneJsonFileHoldsEverything) {
  const auto path =
      write(R"({"model_name_or_path": "m", "task_name": "cola", "learning_rate": 1e-4, "max_steps": 5,
                              "report_to": "none", "eval_steps": null, "lr_scheduler_kwargs": {"a": 1},
                              "no_cuda": true, "use_ipex": false})");
  CommandLine<GlueArguments> line;
  const auto result = parse_arguments(line.fields(), {path});
  EXPECT_EQ(line.script.model_name_or_path, "m");
  EXPECT_EQ(line.training.learning_rate, 1e-4);
  EXPECT_EQ(line.training.max_steps, 5);
  EXPECT_TRUE(line.training.use_cpu);
  EXPECT_EQ(result.notices.size(), 1u);
}

TEST_F(ConfigFile, UnknownKeysAndWrongTypesAreRefused) {
  EXPECT_NE(error_of({write(R"({"lerning_rate": 1})")}).find("unknown key; did you mean --learning_rate?"),
            std::string::npos);
  EXPECT_NE(
      error_of({write(R"({"max_steps": "5"})")}).find("max_steps: found \"5\", expected a whole number"),
      std::string::npos);
  EXPECT_NE(error_of({write(R"({"seed": null})")}).find("seed: found null, expected a whole number"),
            std::string::npos);
  EXPECT_NE(error_of({write("[1]")}).find("found a JSON array, expected an object"), std::string::npos);
  EXPECT_NE(error_of({"/no/such/file.json"}).find("expected a JSON file with settings"), std::string::npos);
}

TEST_F(ConfigFile, PrintedConfigReadsBackAsItself) {
  auto line = parse_command_line<GlueArguments>(words(
      "--model_name_or_path m --task_name rte --do_train --eval_strategy steps --eval_steps 20 "
      "--logging_steps "
      "0.1 --lr_scheduler_type polynomial --lr_scheduler_kwargs {\"power\":2} --report_to none --use_cpu "
      "--output_dir out"));
  const auto config = line.config();
  auto again = parse_command_line<GlueArguments>({write(config.dump())});
  EXPECT_EQ(again.config().dump(), config.dump());
  EXPECT_EQ(config["eval_steps"], 20);
  EXPECT_FALSE(config.contains("print_config"));
}

TEST_F(ConfigFile, ArgumentsFileIsSplitAtSpaces) {
  EXPECT_EQ(read_arguments_file(write("--do_train\n--seed  3\n")), WordList({"--do_train", "--seed", "3"}));
  EXPECT_TRUE(read_arguments_file("/no/such.args").empty());
}

TEST(ArgumentParser, HelpSkipsValidation) {
  EXPECT_TRUE(parse_command_line<GlueArguments>({"--help"}).help);
  EXPECT_TRUE(parse_command_line<GlueArguments>({"--do_train", "-h"}).help);
  EXPECT_THROW(parse_command_line<GlueArguments>({"--do_train"}), Error);
}

/// What commands other than scripts have: switches, words, a letter.
struct CommandSettings : TrainingArguments {
  std::optional<std::string> file;
  int ranks = 1;
  bool json = false;
};

const std::vector<Field<CommandSettings>>& table() {
  static const std::vector<Field<CommandSettings>> rows = {
      {"file", &CommandSettings::file, "Texts.", {.value = "FILE"}},
      {"ranks", &CommandSettings::ranks, "Processes.", {.low = 1, .letter = "n"}},
      {"json", &CommandSettings::json, "Print JSON."},
      {shared_row("device", "Of its own."), &CommandSettings::device},
      {shared_row("fp16"), &CommandSettings::fp16}};
  return rows;
}

struct Read {
  CommandSettings settings;
  ParsedArguments parsed;
};

Read read_as(Words words, const std::vector<std::string>& args) {
  Read read;
  read.parsed = parse_arguments(bind(table(), read.settings), args, words);
  return read;
}

std::string error_as(Words words, const std::vector<std::string>& args) {
  try {
    CommandSettings settings;
    parse_arguments(bind(table(), settings), args, words);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(CommandArguments, SwitchesLeaveTheNextWordAndTextsMayLookLikeFlags) {
  const Read read =
      read_as(Words::kAny, {"a", "--json", "true", "--file", "--odd", "-5", "--dev=cpu", "--", "--x"});
  EXPECT_EQ(read.parsed.words, WordList({"a", "true", "-5", "--x"}));
  EXPECT_EQ(read.parsed.given, std::set<std::string_view>({"json", "file", "device"}));
  EXPECT_TRUE(read.settings.json);
  EXPECT_EQ(read.settings.file, "--odd");
  EXPECT_EQ(read.settings.device, "cpu");
  EXPECT_TRUE(read_as(Words::kAny, {"a", "-h"}).parsed.help);
}

TEST(CommandArguments, ACommandBehindTheFlagsKeepsItsOwn) {
  for (const std::vector<std::string>& args :
       {WordList{"-n", "2"}, WordList{"-n=2"}, WordList{"--ranks", "2"}, WordList{"--ranks=2"}}) {
    WordList all = args;
    all.insert(all.end(), {"glue", "-n", "--help"});
    const Read read = read_as(Words::kCommand, all);
    EXPECT_EQ(read.settings.ranks, 2);
    EXPECT_FALSE(read.parsed.help);
    EXPECT_EQ(read.parsed.words, WordList({"glue", "-n", "--help"}));
  }
  for (const char* unknown : {"-m", "-", "-nn", "--"})
    EXPECT_EQ(error_as(Words::kCommand, {unknown, "2"}),
              std::string(unknown) + ": unknown flag; --help lists all");
}

TEST(CommandArguments, ErrorsAreThoseOfScripts) {
  EXPECT_EQ(error_as(Words::kAny, {"--jsom"}), "--jsom: unknown flag; did you mean --json?");
  EXPECT_EQ(error_as(Words::kAny, {"--f", "x"}),
            "--f: could be any of --file, --fp16; write out one of them");
  EXPECT_EQ(error_as(Words::kAny, {"--file"}), "--file: found no value, expected one (str)");
  EXPECT_EQ(error_as(Words::kAny, {"--ranks", "x"}), "--ranks: found 'x', expected a whole number");
  EXPECT_EQ(error_as(Words::kAny, {"--ranks", "0"}),
            "--ranks: found 0, expected at least 1 and at most 2147483647");
  EXPECT_EQ(error_as(Words::kAny, {"--ranks", "3000000000"}),
            "--ranks: found 3000000000, expected at least 1 and at most 2147483647");
  EXPECT_EQ(error_as(Words::kAny, {"--json=false"}),
            "--json=false: a switch takes no value; leave it out to have it off");
  EXPECT_EQ(error_as(Words::kNone, {"--json", "true"}),
            "found 'true', expected a flag such as --file (a flag takes one value)");
  EXPECT_EQ(error_as(Words::kNone, {"--no_cuda"}), "--no_cuda: unknown flag; --help lists all");
}

TEST(CommandArguments, AFlagOfTheTrainerIsStatedOnce) {
  const FieldInfo& device = table()[3].info;
  EXPECT_EQ(device.rules.choices, row_of("device").rules.choices);
  EXPECT_EQ(device.help, "Of its own.");
  EXPECT_EQ(table()[4].info.help, row_of("fp16").help);
  EXPECT_EQ(error_as(Words::kAny, {"--device", "ref"}), "no error");  // who opens it knows
  EXPECT_THROW(row_of("no_such"), Error);
}

TEST(NearestNames, ClosestByEditsElseThoseThatContainIt) {
  const std::vector<std::string_view> names = {"learning_rate", "eval_steps", "save_steps", "do_eval"};
  EXPECT_EQ(nearest_names("leraning_rate", names), WordList({"learning_rate"}));
  EXPECT_EQ(nearest_names("steps", names), WordList({"eval_steps", "save_steps"}));
  EXPECT_TRUE(nearest_names("zzzz", names).empty());
}

}  // namespace
}  // namespace lathe
