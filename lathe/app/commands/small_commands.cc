// lathe tokenize, info, doctor, arguments.
#include <fmt/format.h>

#include <functional>

#include "lathe/app/check/device_check.h"
#include "lathe/app/check/doctor.h"
#include "lathe/app/commands/completion.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/data/table.h"
#include "lathe/io/safetensors.h"
#include "lathe/text/python_format.h"
#include "lathe/text/visible_text.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

struct TokenizeSettings {
  std::optional<std::string> file;
  int max_length = 0, stride = 0;
};
struct InfoSettings {};
struct DoctorSettings {
  std::optional<std::string> device;
  bool self_test = false;
};
struct ArgumentsSettings {
  bool json = false, man = false;
};

void print_line(const std::string& text) { fmt::print("{}\n", text_for_stdout(text)); }

int tokenize(TokenizeSettings& settings, const Call& call) {
  const std::vector<std::string>& words = call.words;
  const size_t texts = words.size() - (words.empty() ? 0 : 1);
  if (words.empty() || texts > 2 || (texts == 0) != settings.file.has_value())
    call.refuse("expected a model folder and one or two texts, or --file");
  const Tokenizer tokenizer = Tokenizer::load(named_model(words[0], {false, true}));
  EncodeOptions encode;
  encode.max_length = settings.max_length;
  encode.stride = settings.stride;
  const auto show = [&](const std::vector<Encoding>& encodings) {
    for (const Encoding& encoding : encodings) print_line(encoding_to_json(encoding, tokenizer));
  };
  if (texts == 2) {
    show(tokenizer.encode_with_overflow(words[1], words[2], encode));
  } else if (texts == 1) {
    show(tokenizer.encode_with_overflow(words[1], encode));
  } else {
    for (const std::string& line : read_lines(*settings.file)) {
      const size_t tab = line.find('\t');
      show(tab == std::string::npos
               ? tokenizer.encode_with_overflow(line, encode)
               : tokenizer.encode_with_overflow(line.substr(0, tab), line.substr(tab + 1), encode));
    }
  }
  return 0;
}

void print_tensors(const std::vector<std::string>& names,
                   const std::function<const TensorView*(const std::string& name)>& find) {
  int64_t total = 0;
  size_t bytes = 0;
  for (const std::string& name : names) {
    total += elements(find(name)->shape);
    bytes += find(name)->bytes.size();
  }
  fmt::print("weights         {} tensors, {} elements, {} bytes\n", names.size(), with_commas(total),
             with_commas(static_cast<int64_t>(bytes)));
  for (const std::string& name : names)
    fmt::print("  {:<60} {}\n", visible_line(name), to_string(Type{find(name)->dtype, find(name)->shape}));
}

void print_adapter(const Adapter& adapter, const ModelFolders& folders) {
  const nn::AdapterOptions& options = adapter.options;
  fmt::print("adapter         LoRA of {}: r {}, alpha {}, dropout {}, scale {:.4g}\n",
             visible_line(folders.weights), options.rank, options.alpha, options.dropout, options.scale());
  fmt::print("layers          {}\n", visible_line(fmt::format("{}", fmt::join(options.targets, ", "))));
  fmt::print("trained whole   {}\n",
             visible_line(fmt::format("{}", fmt::join(options.modules_to_save, ", "))));
}

int info(InfoSettings&, const Call& call) {
  if (call.words.size() != 1) call.refuse("expected a model folder");
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(call.words[0]);
  const ModelFolders folders = folders_of(fs, folder, [](const auto& base) { return named_model(base); });
  const ModelConfig c = read_config(fs, folders);
  fmt::print("folder          {}\n", visible_line(folder));
  fmt::print("model           {}: {} layers, {} columns, {} heads, {} inner columns, {} positions\n",
             visible_line(c.model_type), c.num_hidden_layers, c.hidden_size, c.num_attention_heads,
             c.intermediate_size, c.max_position_embeddings);
  fmt::print("architectures   {}\n",
             python_json(c.json->value("architectures", nlohmann::json::array()), -1));
  const Tokenizer tokenizer = Tokenizer::load(folders.tokenizer);
  fmt::print("tokenizer       {} tokens, at most {} per text; the model has {} embeddings\n",
             tokenizer.vocab_size(), with_commas(tokenizer.model_max_length()), c.vocab_size);
  if (names_labels(c)) {
    std::string labels;
    for (const std::string& label : config_labels(c))
      labels += (labels.empty() ? "" : ", ") + visible_line(label);
    fmt::print("labels          {}\n", labels);
  }
  if (folders.adapter.empty()) {
    const auto checkpoint = open_checkpoint(fs, folder);
    print_tensors(checkpoint->names(), [&](const std::string& name) { return checkpoint->find(name); });
    return 0;
  }
  print_adapter(read_adapter_config(fs, folder), folders);
  const SafetensorsFile file = SafetensorsFile::open(fs, join_path(folder, kAdapterFile));
  print_tensors(file.names(), [&](const std::string& name) { return file.find(name); });
  return 0;
}

int doctor(DoctorSettings& settings, const Call&) {
  const TerminalPort port = standard_port();
  const auto say = [&](const std::string& line) { port.out(line + "\n"); };  // at once, into a pipe, too
  const DoctorReport report = examine(machine_facts());
  for (const std::string& line : report.lines) say(line);
  if (settings.self_test) {
    const auto show = [&](const BenchReport& table) {
      port.out(terminal_text(table, port.width(), port.unicode));
    };
    return check_device(settings.device.value_or("auto"), say, show) ? report.exit_code : 1;
  }
  if (settings.device) open_device(*settings.device);
  return report.exit_code;
}

int arguments(ArgumentsSettings& settings, const Call&) {
  if (settings.man)
    fmt::print("{}", man_page(commands()));
  else if (settings.json)
    print_line(python_json(arguments_json(), 2));
  else
    fmt::print("{}", command_page());
  return 0;
}

}  // namespace

Command tokenize_command() {
  using T = TokenizeSettings;
  return make_command<T>(
      {.name = "tokenize",
       .summary = "show the tokens of a text",
       .synopsis = "MODEL_DIR TEXT [TEXT_PAIR] [flags]\nMODEL_DIR --file FILE [flags]",
       .details = "Prints one JSON object for each text with ids, tokens, type ids, offsets and word ids.",
       .words = Words::kAny},
      {{"file", &T::file, "One text a line; a tab parts the two texts of a pair.", {.value = "FILE"}},
       {"max_length", &T::max_length, "Longest input in tokens; 0: any.", {.low = 0}},
       {"stride", &T::stride, "Tokens that two parts of a longer text share.", {.low = 0}}},
      tokenize);
}

Command info_command() {
  return make_command<InfoSettings>({.name = "info",
                                     .summary = "show what a model folder holds",
                                     .synopsis = "MODEL_DIR",
                                     .details = "Prints what a model folder holds.",
                                     .words = Words::kAny},
                                    {}, info);
}

Command doctor_command() {
  using D = DoctorSettings;
  return make_command<D>(
      {.name = "doctor",
       .summary = "check this machine",
       .details = "Tells what this machine has for training, and what to do about what it "
                  "lacks. Exit code 1: training "
                  "cannot work, or the device does not compute what it should."},
      {{shared_row("device", "The device that is meant: an error where it is not there."), &D::device},
       {"self_test", &D::self_test,
        "Also check the device, every op and 50 updates against the reference, and "
        "measure a step, inference and a "
        "small network."}},
      doctor);
}

Command arguments_command() {
  using A = ArgumentsSettings;
  return make_command<A>(
      {.name = "arguments",
       .summary = "the table of all flags, as Markdown or JSON; the manual page",
       .details = "Prints the table of all flags as Markdown."},
      {{"json", &A::json, "The flags of lathe glue, qa, ner, mlm, clm, swag, embed and rerank as JSON."},
       {"man", &A::man, "Lathe's manual page."}},
      arguments);
}

}  // namespace lathe
