#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lathe/program/program.h"

namespace lathe::nn {

/// How a parameter starts when no checkpoint has it.
enum class Init {
  kZeros,
  kOnes,
  kNormal,
  kTruncated,  ///< normal, without values too many standard deviations from 0
  kLowRank,    ///< an adapter's A: uniform in ±1/√columns
};

/// A parameter of a model, by its Hugging Face name.
struct Parameter {
  std::string name;
  Shape shape;
  Init init = Init::kZeros;
  bool decay = true;          ///< takes part in weight decay (HF: all but biases and LayerNorm)
  bool trainable = true;      ///< false: frozen; has neither gradient nor optimizer state
  double stddev = 0;          ///< of kNormal and kTruncated; 0: the model's own
  bool of_linear = false;     ///< of a linear layer, which PyTorch initializes in its own way
  int64_t padding = -1;       ///< row of a table that is not trained; −1: none
  bool of_adapter = false;    ///< no checkpoint of the model has it
  int64_t dropped = 0;        ///< uniform numbers that PyTorch draws before it and does not use
  bool is_table = false;      ///< its rows are looked up
  bool is_tied = false;       ///< of a table: a product reads it, too
  DType stored = DType::f32;  ///< of a table: a dtype that holds all values that it will ever have
};

/// An adapter of one of the layers that a product computes (nn/adapter.h).
struct LowRank {
  std::string layer;
  int64_t rank = 0;
  int64_t before = 0, after = 0;  ///< outputs of the product's layers that come before and after it
  double scale = 1, dropout = 0;
  int a = -1, b = -1;  ///< blocks
};

/// Makes the padding's row of new values 0, as torch.nn.Embedding does.
void clear_padding(const Parameter& parameter, std::vector<float>& values);

/// What a layer reads as one tensor: a parameter, or several matrices below each other (vectors: one after
/// the other), so that one product computes what has several names in Hugging Face's models.
struct Block {
  std::vector<int> parameters;  ///< indices, ascending
  Shape shape;
};

/// What a program reads of a packed batch, by the names that Hugging Face gives the data: N tokens of B rows
/// of S samples follow each other without padding.  Who asks first for a name makes it an input of the
/// program.  On top of what the data have there are position_ids, sample_ids [N] (number of the token's row
/// in the global batch), position_rows [N] (of the position table, where a model numbers them in its own
/// way), row_ids [B] (number of the row), cls_index [B] (first token of each row),
/// scored_sample_ids and scored_position_ids [M] (those of the tokens that are scored), rng [2] (seed,
/// update step), what pooling reads (models/sentence/pooling_inputs.h), and losses over texts of a sample
/// (tasks/column_inputs.h).
class Inputs {
 public:
  /// samples: 0 where each is a row.
  Inputs(Program& program, int64_t tokens, int64_t rows, int64_t scored = 0, int64_t samples = 0)
      : program_(program), tokens_(tokens), rows_(rows), scored_(scored), samples_(samples) {}
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  Value token(const std::string& name) { return make(name, {DType::i32, {tokens_}}); }
  Value row(const std::string& name, DType dtype = DType::i32) { return make(name, {dtype, {rows_}}); }
  Value row(const std::string& name, DType dtype, int64_t width) {
    return make(name, {dtype, {rows_, width}});
  }
  /// So many for each row, [B · count].
  Value rows(const std::string& name, int64_t count, DType dtype = DType::i32) {
    return make(name, {dtype, {rows_ * count}});
  }
  /// Of the tokens that are scored, [M].
  Value scored(const std::string& name) { return make(name, {DType::i32, {scored_}}); }
  /// Of samples that have several rows, [S].
  Value sample(const std::string& name, DType dtype = DType::i32) { return make(name, {dtype, {samples_}}); }
  int64_t samples() const { return samples_; }
  /// The first row of each sample, [S+1].
  Value first_rows() { return make("first_rows", {DType::i32, {samples_ + 1}}); }
  /// Where rows begin, [B+1].
  Value bounds() { return make("cu_seqlens", {DType::i32, {rows_ + 1}}); }
  Value rng() { return make("rng", {DType::i32, {2}}); }
  /// No value if nobody has asked for it.
  Value find(const std::string& name) const;
  int64_t tokens() const { return tokens_; }
  /// Whether a head looks only at tokens that are scored.
  bool has_scored() const { return scored_ > 0; }

 private:
  /// Errors: kInternal for a name that has another type.
  Value make(const std::string& name, Type type);
  Program& program_;
  int64_t tokens_, rows_, scored_, samples_;
  std::map<std::string, Value> made_;
};

/// What the linear layers of a trace multiply in: the dtype of activations, or fewer bits.  kInt8 has no
/// gradient.  kFp8 needs activations in bf16; a layer with a width that is no multiple of 16 stays in bf16.
enum class Quantization { kNone, kInt8, kFp8 };

/// One tracing of a model into a program.
struct Trace {
  std::vector<Value> blocks;  ///< one per block of the model
  Inputs* inputs = nullptr;
  DType dtype = DType::f32;  ///< of activations
  bool training = false;     ///< dropout acts
  Quantization quantization = Quantization::kNone;
  /// One layer of this many has its activations computed again in the backward pass; 0: all are kept.
  int64_t recompute_every = 0;
};

/// The root of a model: its parameters in declared order, and the trace that its layers write to.
/// Layers hold a pointer to their module, so a module must not move.  Several threads may trace it; its list
/// of parameters must not change meanwhile.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Index of the parameter of that name, −1 if there is none.
  int find(const std::string& name) const;
  /// Freezes the parameters whose name begins so, or thaws them.
  void set_trainable(const std::string& prefix, bool trainable);
  /// For the loader: a frozen table may lie in the dtype of its file (Parameter::stored).
  void set_stored(int index, DType dtype, bool is_tied);

  const std::vector<Block>& blocks() const { return blocks_; }
  /// The first parameter of a block represents all of them: they follow each other in one state, and are
  /// trainable together.  Errors: kUsage, naming the parameters, if only some of them are trainable.
  const Parameter& first_of(const Block& block) const;

  /// For layers, while they are built: a parameter that is its own block.  Returns the index of the
  /// block.
  int add_parameter(Parameter parameter);
  /// A parameter of a block that is added later.  Returns its index.  Errors: kInternal if the name is taken.
  int declare(Parameter parameter);
  /// Parameters that were declared for it, of the same width and weight decay.  Returns the index of the
  /// block.  Errors: kInternal, also for none.
  int add_block(const std::vector<int>& parameters);

  /// For layers, while they are traced.  Errors: kInternal outside of a trace.
  const Trace& trace() const;

  /// For nn::adapt: declares A and B after the parameters of that layer, which lie in the block `weights`.
  void add_low_rank(int weights, LowRank low_rank);
  /// The adapters of the layers of a block.
  const std::vector<LowRank>& low_ranks(int weights) const;

 private:
  friend class TraceScope;
  std::vector<Parameter> parameters_;
  std::vector<Block> blocks_;
  std::map<int, std::vector<LowRank>> low_ranks_;  // by block of weights
  const Trace* trace_ = nullptr;
  std::recursive_mutex tracing_;  // so that a thread that has it finds out
};

/// In which dtypes frozen parameters are stored.
struct StorageRule {
  /// Of the matrices of linear layers: f32, or the dtype of all activations that they meet.
  DType frozen_products = DType::f32;
};

/// The states in which the parameters of a module lie.  The trainable ones share the flat f32 state
/// "parameters": first the blocks with weight decay, then the rest, each in the order of the blocks.  A
/// frozen block is a state of its own, "frozen." and the name of its first parameter: a matrix in the dtype
/// of the rule; tables as they are stored, if that is one dtype for all tables, all are frozen, and products
/// read that dtype where one is tied; the rest in f32.
struct Layout {
  struct Place {
    std::string state;
    DType dtype = DType::f32;
    int64_t offset = 0;  ///< elements
    bool operator==(const Place&) const = default;
  };
  std::vector<Place> blocks, parameters;  ///< by index
  int64_t trainable = 0, decayed = 0;     ///< elements of "parameters", and of those with weight decay
  bool operator==(const Layout&) const = default;
};
inline constexpr const char* kTrainedState = "parameters";
/// Errors: those of Module::first_of; kInternal for a parameter that is in no block.
Layout layout_of(const Module& module, const StorageRule& rule = {});

/// While this lives, the module's layers write to a trace.  It belongs to one thread; others that trace the
/// module wait.  Errors: kUsage if the thread itself is already tracing the module.
class TraceScope {
 public:
  TraceScope(Module& module, const Trace& trace);
  ~TraceScope() { module_.trace_ = nullptr; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const std::lock_guard<std::recursive_mutex> turn_;
  Module& module_;
};

}  // namespace lathe::nn
