// lathe tokenize, info, doctor, arguments.
#include <fmt/format.h>

#include "lathe/app/check/device_check.h"
#include "lathe/app/check/doctor.h"
#include "lathe/app/commands/commands.h"
#include "lathe/app/commands/completion.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/app/terminal/visible_text.h"
#include "lathe/settings/help.h"
#include "lathe/settings/options.h"
#include "lathe/text/python_format.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

constexpr const char* kTokenizeUsage =
    "usage: lathe tokenize MODEL_DIR [--file FILE | TEXT [TEXT_PAIR]] [--max_length 0] [--stride 0]\n"
    "  Prints one JSON object per text with ids, tokens, type ids, offsets and word ids.  With --file: one "
    "text per line,\n  a tab parts the two texts of a pair.\n";
constexpr const char* kInfoUsage = "usage: lathe info MODEL_DIR\n  Prints what a model folder holds.\n";
constexpr const char* kArgumentsUsage =
    "usage: lathe arguments [--json|--man]\n  The table of all flags of lathe glue and lathe qa, as Markdown "
    "or "
    "as JSON; lathe's manual page.\n";

constexpr const char* kDoctorUsage =
    "usage: lathe doctor [--device auto|cpu|cuda|mps] [--self-test]\n"
    "  Tells what this machine has for training, and what to do about what it lacks.  --device: an error "
    "where "
    "that one\n"
    "  is not there.  --self-test also checks the device, every op and 50 updates against the reference, and "
    "measures\n"
    "  a step, inference and a small network.  Exit code 1: training cannot work, or the device does not "
    "compute "
    "what\n"
    "  it should.\n";

void print_line(const std::string& text) { fmt::print("{}\n", text_for_stdout(text)); }

}  // namespace

Syntax tokenize_syntax() {
  return {kTokenizeUsage, {{"--file", "FILE"}, {"--max_length", "N"}, {"--stride", "N"}}};
}
Syntax info_syntax() { return {kInfoUsage, {}}; }
Syntax doctor_syntax() {
  return {.usage = kDoctorUsage, .flags = {device_flag(), {"--self_test"}}, .flags_alone = true};
}
Syntax arguments_syntax() {
  return {.usage = kArgumentsUsage, .flags = {{"--json"}, {"--man"}}, .flags_alone = true};
}

int run_tokenize(const std::vector<std::string>& args) {
  const Options options = parse_options(args, tokenize_syntax());
  if (options.has("--help")) {
    fmt::print("{}", kTokenizeUsage);
    return 0;
  }
  const size_t texts = options.rest.size() - (options.rest.empty() ? 0 : 1);
  if (options.rest.empty() || texts > 2 || (texts == 0) != options.has("--file"))
    fail(ErrorCode::kUsage, "lathe tokenize: wants a model folder and one or two texts, or --file\n{}",
         kTokenizeUsage);
  const Tokenizer tokenizer = Tokenizer::load(named_model(options.rest[0], {false, true}));
  EncodeOptions encode;
  encode.max_length = whole_number(options, "--max_length", 0, 0);
  encode.stride = whole_number(options, "--stride", 0, 0);
  const auto show = [&](const std::vector<Encoding>& encodings) {
    for (const Encoding& encoding : encodings) print_line(encoding_to_json(encoding, tokenizer));
  };
  if (texts == 2) {
    show(tokenizer.encode_with_overflow(options.rest[1], options.rest[2], encode));
  } else if (texts == 1) {
    show(tokenizer.encode_with_overflow(options.rest[1], encode));
  } else {
    for (const std::string& line : read_lines(options.get("--file"))) {
      const size_t tab = line.find('\t');
      show(tab == std::string::npos
               ? tokenizer.encode_with_overflow(line, encode)
               : tokenizer.encode_with_overflow(line.substr(0, tab), line.substr(tab + 1), encode));
    }
  }
  return 0;
}

int run_info(const std::vector<std::string>& args) {
  const Options options = parse_options(args, info_syntax());
  if (options.has("--help")) {
    fmt::print("{}", kInfoUsage);
    return 0;
  }
  if (options.rest.size() != 1) fail(ErrorCode::kUsage, "lathe info: wants a model folder\n{}", kInfoUsage);
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(options.rest[0]);
  const ModelConfig c = read_model_config(fs, folder);
  fmt::print("folder          {}\n", visible_line(folder));
  fmt::print("model           {}: {} layers, {} columns, {} heads, {} inner columns, {} positions\n",
             visible_line(c.model_type), c.num_hidden_layers, c.hidden_size, c.num_attention_heads,
             c.intermediate_size, c.max_position_embeddings);
  fmt::print("architectures   {}\n", python_json(c.json.value("architectures", nlohmann::json::array()), -1));
  const Tokenizer tokenizer = Tokenizer::load(folder);
  fmt::print("tokenizer       {} tokens, at most {} per text; the model has {} embeddings\n",
             tokenizer.vocab_size(), with_commas(tokenizer.model_max_length()), c.vocab_size);
  if (names_labels(c)) {
    std::string labels;
    for (const std::string& label : config_labels(c))
      labels += (labels.empty() ? "" : ", ") + visible_line(label);
    fmt::print("labels          {}\n", labels);
  }
  const auto checkpoint = open_checkpoint(fs, folder);
  int64_t total = 0, bytes = 0;
  for (const std::string& name : checkpoint->names()) {
    const TensorView* view = checkpoint->find(name);
    total += elements(view->shape);
    bytes += static_cast<int64_t>(view->bytes.size());
  }
  fmt::print("weights         {} tensors, {} elements, {} bytes\n", checkpoint->names().size(),
             with_commas(total), with_commas(bytes));
  for (const std::string& name : checkpoint->names()) {
    const TensorView* view = checkpoint->find(name);
    fmt::print("  {:<60} {}\n", visible_line(name), to_string(Type{view->dtype, view->shape}));
  }
  return 0;
}

int run_doctor(const std::vector<std::string>& args) {
  const Options options = parse_options(args, doctor_syntax());
  if (options.has("--help")) {
    fmt::print("{}", kDoctorUsage);
    return 0;
  }
  const TerminalPort port = standard_port();
  const auto say = [&](const std::string& line) { port.out(line + "\n"); };  // at once, into a pipe, too
  const DoctorReport report = examine(machine_facts());
  for (const std::string& line : report.lines) say(line);
  const std::string device = options.get("--device", "auto");
  if (options.has("--self_test")) {
    const auto show = [&](const BenchReport& table) {
      port.out(terminal_text(table, port.width(), port.unicode));
    };
    return check_device(device, say, show) ? report.exit_code : 1;
  }
  if (options.has("--device")) open_device(device);
  return report.exit_code;
}

int run_arguments(const std::vector<std::string>& args) {
  const Options options = parse_options(args, arguments_syntax());
  if (options.has("--help"))
    fmt::print("{}", kArgumentsUsage);
  else if (options.has("--man"))
    fmt::print("{}", man_page(commands()));
  else if (options.has("--json"))
    print_line(python_json(arguments_json(), 2));
  else
    fmt::print("{}", arguments_page());
  return 0;
}

}  // namespace lathe
