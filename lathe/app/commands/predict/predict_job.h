#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/app/terminal/terminal.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/table_writer.h"
#include "lathe/train/trainer.h"

namespace lathe {

/// The flags of `lathe predict`.
struct PredictSettings : TrainingArguments {
  PredictSettings() { per_device_eval_batch_size = 32; }
  std::string device_kind = "auto";  ///< not the trainer's device, which knows no "ref"
  int pool_threads = 0;
  std::optional<std::string> file, format, column, output, question, context;
  std::string aggregation_strategy = "simple";
  bool json = false, version_2_with_negative = false;
  int top_k = 0;
  int max_seq_length = 128;
};

/// What a model folder, or that above a checkpoint, says of the data that the model was trained on
/// (run.json).
struct TrainedOn {
  std::vector<std::string> columns;  ///< of the texts; empty: not known
  bool pairs = false;                ///< two columns are a pair of texts; else they are joined
  std::string joined_by = " ";
  bool version_2_with_negative = false;
  double null_score_diff_threshold = 0;
};
TrainedOn trained_on(FileSystem& fs, const std::string& folder);

/// A model, what runs it, and what is said of its predictions at the end.
class Predictor {
 public:
  /// Errors: as from_pretrained and Trainer; kInvalidData for a model without a trained head.
  Predictor(PredictSettings& settings, const ModelFolders& folders, MakeTask task);

  const AutoModel& model() const { return model_; }
  ThreadPool& pool() { return pool_; }
  /// The most tokens of a text.
  int length() const { return length_; }
  /// From now on scores are what a sigmoid makes of them.
  void apply_sigmoid() { sigmoid_ = true; }
  Predictions predict(const TokenizedDataset& data);
  /// Warns of samples without a prediction, and says what 8 bits change.
  void finish();
  /// Told the batches of one `predict` that are done.
  std::function<void(int64_t batch, int64_t batches)> on_batch;
  int64_t tokens() const { return tokens_; }

 private:
  TrainerHooks hooks();

  const PredictSettings& settings_;
  AutoModel model_;
  ThreadPool pool_;
  int length_;
  std::shared_ptr<Backend> backend_;
  std::optional<Trainer> trainer_;
  int64_t samples_ = 0, unpredicted_ = 0, tokens_ = 0;
  std::string comparison_;  ///< of the first samples
  int64_t compared_ = 0;
  bool sigmoid_ = false;
};

/// What a model says of the rows of a table, in columns of its own.
class RowPredictor {
 public:
  virtual ~RowPredictor() = default;
  virtual std::vector<std::string> names() const = 0;
  /// Whether a column of this name tells a table from lines of text.
  virtual bool may_be_text(const std::string& name) const = 0;
  /// Told once, with the first part, before `predict`.  lines: all its columns are texts; else it says on
  /// stderr which ones are.
  virtual void begin(const Table& part, bool lines) = 0;
  /// [rows], each of all columns.
  virtual std::vector<std::vector<Cell>> predict(const Table& part) = 0;
};

/// A text, or a pair of texts parted by a tab, which is added to texts that are all single or all pairs.
/// place: for messages, "file:3".  Errors: kInvalidData.
void add_line(TextDataset& data, const std::string& line, const std::string& place,
              const std::string& first_place);

/// The columns of a table that hold the texts: those asked for (names between commas), else those that the
/// model was trained on, else by their names, else the only one of text.
/// Errors: kUsage and kNotFound, naming the columns there are and the way out.
std::vector<std::string> text_columns(const Table& part, const std::optional<std::string>& asked,
                                      const TrainedOn& trained);

/// The texts of a column that the first part has.  An empty cell, or none, is an empty text; `gaps` counts
/// those.  Errors: kInvalidData for a cell that is no text.
std::vector<std::string> texts_of(const Table& part, const std::string& name, Gaps& gaps);

/// Cells without text, of all parts; in the end it says on stderr how many there were.
class EmptyTexts {
 public:
  void add(const Table& part, const Gaps& gaps);
  ~EmptyTexts();

 private:
  size_t count_ = 0;
  std::string first_;
};

/// Texts and pairs for a classifier; answers to questions in contexts; entities in texts or lists of words.
std::unique_ptr<RowPredictor> class_predictor(Predictor& predictor, const PredictSettings& settings,
                                              const TrainedOn& trained);
std::unique_ptr<RowPredictor> answer_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained);

std::unique_ptr<RowPredictor> entity_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained);

/// What masks stand for, in texts.
std::unique_ptr<RowPredictor> mask_predictor(Predictor& predictor, const PredictSettings& settings,
                                             const TrainedOn& trained);

/// Which ending of a row is right.
std::unique_ptr<RowPredictor> choice_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained);

/// The documents of a query by their scores, or the score of each pair.
std::unique_ptr<RowPredictor> rank_predictor(Predictor& predictor, const PredictSettings& settings,
                                             const TrainedOn& trained);

/// Of a query and its documents: a line for each document, the best first, with its number and score; or one
/// of JSON.
std::string shown_ranking(Predictor& predictor, const PredictSettings& settings,
                          const std::vector<std::string>& texts);

/// Of a context and two or more endings: a line for each ending, the likeliest first, with its number and
/// probability; or one of JSON.
std::string shown_choice(Predictor& predictor, const PredictSettings& settings,
                         const std::vector<std::string>& texts);
/// Errors: kUsage, saying that a table is needed.
[[noreturn]] void refuse_choice_lines(const std::string& origin);

/// As shown_entities: a line for each token that may stand in place of a mask.  Errors: kInvalidData for a
/// text without a mask.
std::string shown_fills(Predictor& predictor, const PredictSettings& settings, const TextDataset& texts,
                        std::span<const uint32_t> numbers);

/// What is printed of the entities in texts: a line for each, with --json one for each text.  numbers: of the
/// texts, which then come first; empty: there is one text.  Errors: kUsage for pairs.
std::string shown_entities(Predictor& predictor, const PredictSettings& settings, const TextDataset& texts,
                           std::span<const uint32_t> numbers);

/// All of --file, whatever it holds.  show: what is printed of a part of a file of lines, where that goes to
/// standard output.
void predict_file(Predictor& predictor, const PredictSettings& settings, RowPredictor& rows,
                  const std::function<std::string(const Table&)>& show);

}  // namespace lathe
