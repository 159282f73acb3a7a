// lathe encode: vectors of texts.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <optional>

#include "lathe/app/commands/commands.h"
#include "lathe/app/commands/file_format.h"
#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/backends/register.h"
#include "lathe/data/own/own_columns.h"
#include "lathe/data/table_reader.h"
#include "lathe/data/table_writer.h"
#include "lathe/io/npy.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/text/text.h"
#include "lathe/train/sentence/text_encoder.h"
#include "lathe/train/trainer_arguments.h"

namespace lathe {
namespace {

struct EncodeSettings {
  std::string device = "auto";
  int threads = 0;
  std::optional<std::string> file, format, text_column_name, output, prompt, prompt_name;
  std::optional<int64_t> truncate_dim;
  bool normalize_embeddings = false, bf16 = false, fp16 = false, int8 = false, fp8 = false;
  int max_seq_length = 0;
  int64_t batch_tokens = 0;
};
using E = EncodeSettings;

void check_call(const E& settings, const Call& call) {
  const bool texts = call.words.size() > 1;
  if (call.words.empty()) call.refuse("expected a model folder");
  if (texts == settings.file.has_value())
    call.refuse(texts ? "found texts and --file, expected one of them" : "expected texts or --file");
  for (const char* name : {"format", "text_column_name"})
    if (call.given.contains(name) && !settings.file) call.refuse(fmt::format("--{} goes with --file", name));
  if (settings.bf16 && settings.fp16) call.refuse("--bf16 and --fp16: found both, expected at most one");
  if (settings.fp8 && (settings.fp16 || settings.int8))
    call.refuse(
        fmt::format("--fp8 and {}: found both, expected at most one", settings.fp16 ? "--fp16" : "--int8"));
}

/// The column with the texts.  Errors: kUsage, naming those that there are and the way out.
std::string text_column(const Table& part, const std::optional<std::string>& asked) {
  if (asked) {
    if (part.find(*asked) == nullptr)
      fail(ErrorCode::kUsage, "--text_column_name: found {}, but {} has the columns {}", *asked, part.origin,
           part.names_text());
    return *asked;
  }
  for (const char* name : {"text", "sentence"})
    if (part.find(name) != nullptr) return name;
  std::vector<std::string> found;
  for (const Column& column : part.columns)
    if (column.type == ColumnType::kString && column.name != "label" && !looks_like_ids(column))
      found.push_back(column.name);
  if (found.size() != 1)
    fail(ErrorCode::kUsage,
         "{}: found the columns {}, expected 'text', 'sentence' or only one of text; say which has the texts "
         "with --text_column_name NAME",
         part.origin, part.names_text());
  print_error(fmt::format("{}: the texts are taken from '{}'; --text_column_name NAME takes others\n",
                          part.origin, found[0]));
  return found[0];
}

std::string json_list(std::span<const float> vector) {
  std::string text = "[";
  for (const float number : vector) {
    if (text.size() > 1) text += ", ";
    text += std::isfinite(number) ? number_text(number) : "null";
  }
  return text + "]";
}

/// Takes the vectors of a part of the table.
using PutVectors = std::function<void(const Table& part, std::span<const float> vectors)>;

/// The rows of the table with their vectors, as JSON Lines.
PutVectors json_lines(int64_t width, std::function<void(std::string_view)> put) {
  const auto writer = std::make_shared<std::optional<TableWriter>>();
  return [=, columns = static_cast<size_t>(width)](const Table& part, std::span<const float> vectors) {
    if (!*writer) writer->emplace(OutputFormat::kJsonLines, free_names(part, {"embedding"}));
    std::vector<std::vector<Cell>> cells;
    for (size_t row = 0; row < part.rows(); ++row)
      cells.push_back({Cell::json(json_list(vectors.subspan(row * columns, columns)))});
    std::string text;
    (*writer)->write(part, cells, text);
    put(text);
  };
}

/// What is odd about vectors, said in the end.
class VectorCheck {
 public:
  explicit VectorCheck(int64_t width) : width_(static_cast<size_t>(width)) {}
  void add(const Table& part, std::span<const float> vectors) {
    for (size_t row = 0; row < part.rows(); ++row) {
      const auto vector = vectors.subspan(row * width_, width_);
      const bool finite = std::all_of(vector.begin(), vector.end(), [](float x) { return std::isfinite(x); });
      const bool zero = std::all_of(vector.begin(), vector.end(), [](float x) { return x == 0; });
      if (!finite && broken_++ == 0) first_broken_ = part.place(row);
      if (zero && zeros_++ == 0) first_zero_ = part.place(row);
    }
  }
  void tell(bool fp16) const {
    if (broken_ > 0)
      print_error(fmt::format(
          "vectors with numbers that are not finite: {}, the first at {}. {}\n", broken_, first_broken_,
          fp16 ? "fp16 holds no value beyond 65504; --bf16 and f32 do" : "Are the weights damaged?"));
    if (zeros_ > 0)
      print_error(fmt::format("vectors of zeros, which are like no other: {}, the first at {}\n", zeros_,
                              first_zero_));
  }

 private:
  size_t width_, broken_ = 0, zeros_ = 0;
  std::string first_broken_, first_zero_;
};

/// Texts in parts: while the device encodes one, the next is read and tokenised.
class EncodeJob {
 public:
  EncodeJob(TextEncoder& encoder, const std::string& prompt, const VectorForm& form, PutVectors put)
      : encoder_(encoder),
        prompt_(prompt),
        form_(form),
        width_(encoder.width(form)),
        put_(std::move(put)),
        check_(width_) {}

  /// read: how far the reader is.
  void add(const Table& part, const std::string& column, uint64_t read) {
    Gaps gaps;
    if (waiting_) waiting_->tokens.wait();  // one part at a time is tokenised
    Waiting next{.part = part, .tokens = {}, .read = read};
    next.tokens = std::async(std::launch::async, [this, texts = texts_of(part, column, gaps)] {
      return encoder_.tokenize(texts, prompt_);
    });
    empty_.add(part, gaps);
    encode();
    waiting_.emplace(std::move(next));
  }

  void encode() {
    if (!waiting_) return;
    Waiting now = std::move(*waiting_);
    waiting_.reset();
    TokenizedDataset data = now.tokens.get();
    tokens_ += data.tokens();
    texts_ += data.size();
    for (int64_t i = 0; i < data.size(); ++i) cut_ += !data.uncut.empty() && data.uncut[i] > data.length(i);
    const auto total = static_cast<double>(std::max<int64_t>(1, data.size()));
    const std::vector<float> vectors = encoder_.encode(std::move(data), form_, [&](int64_t done) {
      if (stop_signal() != 0) fail(ErrorCode::kInterrupted, "stopped after {} texts", texts_);
      const double share = static_cast<double>(done) / total;
      if (on_progress)
        on_progress(before_ + static_cast<uint64_t>(share * static_cast<double>(now.read - before_)));
    });
    before_ = now.read;
    check_.add(now.part, vectors);
    put_(now.part, vectors);
  }

  std::function<void(uint64_t read)> on_progress;

  void tell_end(const E& settings) const {
    check_.tell(settings.fp16);
    if (cut_ > 0)
      print_error(
          fmt::format("texts that were cut: {} of {}, to {} tokens\n", cut_, texts_, encoder_.longest()));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    print_error(fmt::format("{} texts, {} tokens in {:.1f} s, {:.0f} texts/s; vectors of {} numbers{}\n",
                            texts_, tokens_, seconds, static_cast<double>(texts_) / seconds, width_,
                            settings.output ? " in " + *settings.output : ""));
  }

 private:
  struct Waiting {
    Table part;
    std::future<TokenizedDataset> tokens;
    uint64_t read = 0;
  };

  TextEncoder& encoder_;
  std::string prompt_;
  VectorForm form_;
  int64_t width_;
  PutVectors put_;
  VectorCheck check_;
  EmptyTexts empty_;
  std::optional<Waiting> waiting_;
  uint64_t before_ = 0;
  int64_t texts_ = 0, tokens_ = 0, cut_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

void encode_file(EncodeJob& job, const E& settings, Terminal& terminal) {
  TableReader reader(*settings.file, [] { return stop_signal() != 0; });
  TableFormat format = TableFormat::kJsonLines;
  if (!reader.is_parquet())
    format = format_of_file(reader, *settings.file, settings.format, [&](const std::string& name) {
      return settings.text_column_name ? name == *settings.text_column_name
                                       : name == "text" || name == "sentence";
    });
  const bool lines = format == TableFormat::kLines;
  if (lines && settings.text_column_name)
    fail(ErrorCode::kUsage,
         "--text_column_name: found {}, but {} is read as a text a line; for a table say --format csv, tsv, "
         "json or jsonl",
         *settings.text_column_name, reader.origin());
  std::string column;
  job.on_progress = [&](uint64_t read) { terminal.update_progress(static_cast<int64_t>(read)); };
  const auto take = [&](const Table& given) {
    Table part = given;
    if (lines) part.columns[0].name = "text";
    if (column.empty()) {
      column = lines ? "text" : text_column(part, settings.text_column_name);
      if (reader.total() > 0 && (settings.output || isatty(STDOUT_FILENO) == 0))
        terminal.begin_progress(file_name(reader.origin()), static_cast<int64_t>(reader.total()), 0,
                                reader.is_parquet() ? ProgressUnit::kSteps : ProgressUnit::kBytes);
    }
    job.add(part, column, reader.done());
  };
  reader.for_each_part(format, {.keep_objects = true, .keep_numbers = !reader.is_parquet()}, take);
  job.encode();
  terminal.end_progress();
}

void encode_words(EncodeJob& job, const Call& call) {
  Table table{.origin = "text", .columns = {}, .lines = {}, .later_files = {}};
  table.columns.push_back(
      {.name = "text", .values = {call.words.begin() + 1, call.words.end()}, .type = ColumnType::kString});
  for (size_t i = 1; i < call.words.size(); ++i) {
    check_utf8(call.words[i], fmt::format("text {}", i));
    table.lines.push_back(static_cast<uint32_t>(i));
  }
  job.add(table, "text", 0);
  job.encode();
}

void check_output(const E& settings) {
  if (!settings.output) return;
  const std::string& path = *settings.output;
  if (!path.ends_with(".npy") && !path.ends_with(".jsonl"))
    fail(ErrorCode::kUsage, "--output: found {}, expected a name that ends in .npy or .jsonl", path);
  check_output_file(path, settings.file);
}

void run_job(TextEncoder& encoder, const std::string& prompt, const E& settings, const Call& call) {
  const VectorForm form{settings.truncate_dim, settings.normalize_embeddings};
  const int64_t width = encoder.width(form);
  Terminal terminal{LogLevel::kInfo, true};
  std::optional<EncodeJob> job;
  const auto run = [&](PutVectors put) {
    job.emplace(encoder, prompt, form, std::move(put));
    if (settings.file)
      encode_file(*job, settings, terminal);
    else
      encode_words(*job, call);
  };
  if (!settings.output) {
    run(json_lines(width, [&](std::string_view text) {
      terminal.print(text);
      if (std::ferror(stdout) != 0) fail(ErrorCode::kIo, "standard output: cannot be written");
    }));
  } else if (const StopSignals signals; settings.output->ends_with(".npy")) {
    NpyStream stream(real_file_system(), *settings.output, width);
    run([&](const Table&, std::span<const float> vectors) { stream.put(vectors); });
    stream.finish();
  } else {
    const auto write = [&](const Sink& sink) -> Status {
      run(json_lines(width, [&](std::string_view text) { sink(as_bytes(text)).check(); }));
      return {};
    };
    real_file_system().write_atomic(*settings.output, write).check();
  }
  if (settings.file) job->tell_end(settings);
}

int encode(E& settings, const Call& call) {
  check_call(settings, call);
  check_output(settings);
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(call.words[0]);
  const auto warn = [](const std::string& text) { print_error(text + "\n"); };
  AutoModel model = sentence_model(fs, folder, [](const std::string& base) { return named_model(base); });
  if (!model.config.sentence)
    warn(
        fmt::format("{}: no modules.json; the vectors are the means of the tokens', as of a "
                    "SentenceTransformer that is made of an encoder",
                    folder));
  const std::string prompt = chosen_prompt(model, settings.prompt, settings.prompt_name);
  const auto backend = open_device(settings.device, {settings.threads, false, warn});
  if (settings.prompt && settings.prompt_name) warn("--prompt_name: not used, as there is a --prompt");
  if (settings.fp8) check_fp8(*backend);
  if (settings.int8 && backend->implementations(op::linear_int8).empty())
    fail(ErrorCode::kUnsupported, "--int8: device {} has no products of integers; --device cpu has",
         backend->info().kind);
  ThreadPool pool(settings.threads);
  const bool few_bits = settings.int8 || settings.fp8;
  TextEncoder encoder(*backend, model, pool,
                      {.max_seq_length = settings.max_seq_length,
                       .batch_tokens = settings.batch_tokens,
                       .dtype = settings.fp16               ? DType::f16
                                : settings.bf16 || few_bits ? DType::bf16
                                                            : DType::f32,
                       .quantization = settings.int8  ? nn::Quantization::kInt8
                                       : settings.fp8 ? nn::Quantization::kFp8
                                                      : nn::Quantization::kNone});
  run_job(encoder, prompt, settings, call);
  return 0;
}

}  // namespace

Command encode_command() {
  constexpr double kMost = std::numeric_limits<int>::max();
  return make_command<E>(
      {.name = "encode",
       .summary = "vectors of texts, for search and comparison",
       .synopsis = "MODEL_DIR --file TABLE --output VECTORS.npy [flags]\nMODEL_DIR TEXT… [flags]",
       .details =
           "Does what SentenceTransformer.encode does with the folder of sentence-transformers "
           "(modules.json): "
           "pooling, Dense, Normalize. Of an encoder without modules the vector is the mean of its tokens'.\n"
           "A .npy file is what numpy.load reads: float32, a row for each text, in their order. JSON Lines "
           "keep the columns of the table and add embedding, a list.\n"
           "An empty text has a vector, too. It reads the file in parts, so a file may be larger than the "
           "memory.",
       .words = Words::kAny},
      {{"file",
        &E::file,
        "A table (.csv, .tsv, .json, .jsonl, .parquet), or another file with one text a line; - is standard "
        "input.",
        {.value = "FILE"}},
       {"format",
        &E::format,
        "How --file is written, if its name does not say so.",
        {.choices = {"csv", "tsv", "json", "jsonl", "lines"}}},
       {"text_column_name",
        &E::text_column_name,
        "The column with the texts. Default: text, else sentence, else the only column of text.",
        {.value = "NAME"}},
       {"output",
        &E::output,
        "Where the vectors go: .npy or .jsonl; the file is whole or not there. Default: JSON Lines on "
        "standard "
        "output.",
        {.value = "FILE"}},
       {"prompt", &E::prompt, "What comes before each text.", {.value = "TEXT"}},
       {"prompt_name",
        &E::prompt_name,
        "The prompt of that name in the folder. Default: the folder's default_prompt_name, if any.",
        {.value = "NAME"}},
       {"truncate_dim",
        &E::truncate_dim,
        "Keep so many numbers of each vector, for models that were trained for it (Matryoshka). They are not "
        "normalised again without --normalize_embeddings. Default: as the folder says, else all.",
        {.low = 1, .high = kMost}},
       {"normalize_embeddings", &E::normalize_embeddings, "Divide each vector by its length."},
       {shared_row("device"), &E::device},
       {shared_row("threads"), &E::threads},
       {"batch_tokens",
        &E::batch_tokens,
        "Tokens of a batch, about; 0: 16384 on a GPU, 8192 on a CPU.",
        {.low = 0, .high = kMost}},
       {"max_seq_length",
        &E::max_seq_length,
        "Longest text in tokens; longer ones are cut. 0: as the model says.",
        {.low = 0, .high = kMost}},
       {"bf16", &E::bf16, "Compute in bfloat16."},
       {"fp16", &E::fp16, "Compute in float16."},
       {"int8", &E::int8, "Compute linear layers in 8-bit integers, the rest in bf16 or fp16."},
       {"fp8", &E::fp8, "Compute linear layers in fp8, the rest in bf16; on cuda with an H100 or H200."}},
      encode);
}

}  // namespace lathe
