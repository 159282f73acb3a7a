#include "lathe/engine/programs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/rows.h"
#include "lathe/ops/similarity.h"
#include "lathe/program/autograd.h"

namespace lathe {
namespace {

class Builder {
 public:
  Builder(TaskModel& model, Bucket bucket, const ProgramOptions& options)
      : model_(model),
        bucket_(bucket),
        options_(options),
        layout_(nn::layout_of(model, options.storage)),
        program_(std::make_unique<Program>()) {
    program_->set_longest_row(options.longest_row);
  }

  std::unique_ptr<Program> build(ProgramKind kind) {
    parameters_ = flat(nn::kTrainedState, layout_.trainable);
    if (kind == ProgramKind::kUpdate) {
      update_from_sums();
    } else if (kind == ProgramKind::kBase) {
      output(kBaseRows, base(false));
    } else if (kind == ProgramKind::kEvaluate) {
      evaluate(forward(false));
    } else if (kind == ProgramKind::kForward) {
      output(kLogits, forward(true).scores);
    } else if (kind == ProgramKind::kLoss) {
      loss_of_given();
    } else if (options_.gradient_given) {
      accumulate_given(forward(true).scores);
    } else {
      const Value loss = this->loss(forward(true)).loss;
      if (kind == ProgramKind::kStep)
        step(loss);
      else
        accumulate(loss, program_->emit(op::concat, backward(loss))[0]);
    }
    program_->remove_dead_nodes();
    return std::move(program_);
  }

 private:
  Value flat(const char* name, int64_t size) { return program_->state(name, {DType::f32, {size}}); }
  void output(const char* name, Value value) { program_->output(name, value); }
  Value ints(const char* name, int64_t size) { return program_->input(name, {DType::i32, {size}}); }

  HeadOutput forward(bool training) {
    const Value base = this->base(training);
    trace_.quantization = nn::Quantization::kNone;
    return model_.head(base);
  }

  /// The type of the base's output.
  Type base_type() const {
    const int64_t rows = model_.per_scored()  ? bucket_.scored
                         : model_.per_token() ? bucket_.tokens
                                              : bucket_.rows;
    return {options_.dtype, {rows, model_.hidden_size()}};
  }

  /// The base's output, computed or given.
  Value base(bool training) {
    begin_trace(training);
    if (options_.base_given) {
      if (!model_.base_frozen()) fail(ErrorCode::kInternal, "the output of a base that is trained was given");
      return program_->input("base", base_type());
    }
    const Value base = model_.base_output();
    if (base.type() != base_type())
      fail(ErrorCode::kInternal, "the base gives {}, expected {}", to_string(base.type()),
           to_string(base_type()));
    return base;
  }

  void begin_trace(bool training) {
    for (size_t b = 0; b < model_.blocks().size(); ++b) {
      const nn::Layout::Place& at = layout_.blocks[b];
      const Shape& shape = model_.blocks()[b].shape;
      const bool trainable = at.state == nn::kTrainedState;
      trace_.blocks.push_back(trainable ? slice(parameters_, at.offset, shape)
                                        : program_->state(at.state, {at.dtype, shape}));
      if (trainable) trainable_.push_back(trace_.blocks.back());
    }
    trace_.inputs =
        &inputs_.emplace(*program_, bucket_.tokens, bucket_.rows, bucket_.scored, bucket_.samples);
    trace_.dtype = options_.dtype;
    trace_.training = training;
    trace_.quantization = options_.quantization;
    trace_.recompute_every = training ? options_.recompute_every : 0;
    tracing_.emplace(model_, trace_);
  }

  LossAndCorrect loss(const HeadOutput& head) {
    Task::LossOptions options{.smoothing = options_.label_smoothing};
    if (trace_.training) options.ranks = options_.ranks, options.rank = options_.rank;
    return model_.task().loss(head, *inputs_, options);
  }

  void evaluate(const HeadOutput& head) {
    if (options_.scores)
      output(kLogits, head.scores ? head.scores : cast(linear(head.rows, head.table, head.bias), DType::f32));
    if (!options_.targets) return;
    const LossAndCorrect found = loss(head);
    output(kLoss, found.loss);
    if (found.correct) output(kCorrect, found.correct);
  }

  /// The loss is shared before the backward pass: sums over ranks are made in the order of their nodes.
  void step(Value loss) {
    const bool alone = options_.ranks == 1;
    const Value mean = alone ? loss : shared_loss(loss);
    if (alone) output(kLoss, loss);
    std::vector<Value> gradients = backward(loss);
    if (options_.rounded_gradients) round_weights(gradients);
    output(kGradNorm, update(joined(alone ? gradients : summed(gradients)), mean));
  }

  /// Gradients in the order of the layout as flat tensors; one run of them may be rounded.
  FlatGradients joined(const std::vector<Value>& gradients) {
    std::vector<Value> exact, rounded;
    FlatGradients flat;
    for (const Value& gradient : gradients) {
      const bool is_exact = gradient.type().dtype == DType::f32;
      (is_exact ? exact : rounded).push_back(gradient);
      if (is_exact && rounded.empty()) flat.first += elements(gradient.type());
    }
    flat.exact = program_->emit(op::concat, exact)[0];
    if (rounded.empty())
      flat.first = 0;
    else
      flat.rounded = program_->emit(op::concat, rounded)[0];
    return flat;
  }

  /// Whether a gradient is a product of activations that are bf16.
  bool is_bf16_product(Value gradient) const {
    if (producer(gradient) < 0) return false;
    const Node& node = program_->nodes()[static_cast<size_t>(producer(gradient))];
    return node.op == &op::linear_bwd_weight && node.out[0] == gradient.id &&
           program_->type(node.in[0]).dtype == DType::bf16;
  }

  /// Rounds the longest run of gradients that are such products, each where it is computed.
  void round_weights(std::vector<Value>& gradients) {
    if (!std::holds_alternative<AdamWOptions>(options_.optimizer)) return;
    size_t first = 0, last = 0;
    for (size_t begin = 0, i = 0; i <= gradients.size(); ++i) {
      if (i < gradients.size() && is_bf16_product(gradients[i])) continue;
      if (i - begin > last - first) first = begin, last = i;
      begin = i + 1;
    }
    if (last - first == gradients.size()) ++first;  // the others are a tensor, too
    std::map<int, Value> rounded;                   // by the node that computes what is rounded
    for (size_t i = first; i < last; ++i) {
      const ValueInfo& exact = program_->values()[static_cast<size_t>(gradients[i].id)];
      rounded[exact.producer] = gradients[i] = program_->temporary({DType::bf16, exact.type.shape});
    }
    std::vector<Node> nodes;
    for (size_t n = 0; n < program_->nodes().size(); ++n) {
      nodes.push_back(program_->nodes()[n]);
      const auto it = rounded.find(static_cast<int>(n));
      if (it == rounded.end()) continue;
      nodes.push_back({&op::cast, {nodes.back().out[0]}, {it->second.id}, {{"to", std::string("bf16")}}});
    }
    program_->rewrite(std::move(nodes));
  }

  void accumulate(Value loss, Value gradients) {
    const Value keep = program_->input("keep", {DType::f32, {1}});
    program_->emit(op::accumulate, {flat("gradients", layout_.trainable), gradients, keep});
    if (options_.ranks == 1)
      output(kLoss, loss);
    else
      program_->emit(op::accumulate, {flat("loss", 1), loss, keep});
  }

  /// The gradient by the head's output, for accumulate_given.
  void loss_of_given() {
    begin_trace(true);
    const Value given = program_->input(kLogits, {DType::f32, {bucket_.rows, options_.head_width}});
    const Value loss = this->loss(given).loss;
    const Value weight = program_->input("loss_weight", {DType::f32, {1}});
    output(kLogitsGradient, gradients(loss, weight, {{given}}, op::add)[0]);
    if (options_.ranks == 1)
      output(kLoss, loss);
    else
      program_->emit(op::accumulate, {flat("loss", 1), loss, program_->input("keep", {DType::f32, {1}})});
  }

  /// Gradients by the parameters of Σ head's output · given: those of the loss that it is the gradient of.
  void accumulate_given(Value scores) {
    const Value given = program_->input(kLogitsGradient, scores.type());
    const Value one = program_->input("one", {DType::f32, {1}});
    const Value sum =
        scale(mean(program_->emit(op::row_scores, {scores, given})[0]), static_cast<double>(bucket_.rows));
    const Value keep = program_->input("keep", {DType::f32, {1}});
    const Value all = program_->emit(op::concat, ordered(gradients(sum, one, trainable_, op::add)))[0];
    program_->emit(op::accumulate, {flat("gradients", layout_.trainable), all, keep});
  }

  void update_from_sums() {
    Value gradients = flat("gradients", layout_.trainable), mean;
    if (options_.ranks > 1) {
      mean = shared_loss(flat("loss", 1));
      gradients = summed(gradients);
    }
    output(kGradNorm, update({gradients}, mean));
  }

  /// Outputs the mean over the ranks and, from the same exchange, stop; returns the mean.
  Value shared_loss(Value loss) {
    const Value stop = program_->input("stop", {DType::f32, {1}});
    const Value both = program_->emit(op::concat, {scale(loss, 1.0 / options_.ranks), stop})[0];
    const Value sums = program_->emit(op::all_reduce, {both})[0];
    const Value mean = slice(sums, 0, {1});
    output(kLoss, mean);
    output(kStop, slice(sums, 1, {1}));
    return mean;
  }

  Value summed(Value gradients) {
    return program_->emit(op::all_reduce, {gradients}, {{"bf16", options_.gradient_wire == DType::bf16}})[0];
  }

  /// Sums gradients over the ranks, in buckets of neighbours of one dtype.  Each bucket has its own node.
  /// The nodes are in the order in which the gradients are complete, which is the same on every rank.  The
  /// backward pass computes the first gradients of a dtype last, and nothing hides the wait for their bucket.
  /// So that bucket is the smallest, and comes after the rows of words, from which a table is still to be
  /// summed.  The others double up to the given size.
  std::vector<Value> summed(const std::vector<Value>& gradients) {
    constexpr int64_t kGrowth = 8;  // the largest bucket, in smallest ones
    constexpr int kLast = std::numeric_limits<int>::max();
    struct Bucket {
      std::vector<Value> parts;
      int complete = 0;  // the node that computes the last of its gradients
      Value sum;
    };
    std::vector<Bucket> buckets;
    int64_t bytes = 0, most = options_.bucket_bytes / kGrowth;
    for (const Value& gradient : gradients) {
      const Value rows = sum_of_rows(gradient);
      const int64_t more = static_cast<int64_t>(bytes_of(gradient.type()));
      const bool joins = !rows && !buckets.empty() && !buckets.back().sum &&
                         buckets.back().parts[0].type().dtype == gradient.type().dtype;
      const bool full = joins && bytes + more > most;
      if (full) most = std::min(2 * most, options_.bucket_bytes);
      if (!joins || full) buckets.emplace_back(), bytes = 0;
      bytes += more;
      Bucket& bucket = buckets.back();
      bucket.sum = rows;
      bucket.parts.push_back(gradient);
      bucket.complete = joins ? std::max(bucket.complete, producer(gradient)) : kLast;
    }
    std::vector<Bucket*> order;
    for (Bucket& bucket : buckets)
      if (!bucket.sum) order.push_back(&bucket);
    std::stable_sort(order.begin(), order.end(),
                     [](const Bucket* a, const Bucket* b) { return a->complete < b->complete; });
    for (Bucket* bucket : order) bucket->sum = summed(program_->emit(op::concat, bucket->parts)[0]);
    std::vector<Value> sums;
    for (const Bucket& bucket : buckets) sums.push_back(bucket.sum);
    return sums;
  }

  /// The sum over the ranks of the gradient of the word table, from the rows of all ranks, if that sends less
  /// data; else none.  A table is sent twice, to be summed and to be distributed, rows once.
  Value sum_of_rows(Value gradient) {
    if (producer(gradient) < 0) return {};
    const Node node = program_->nodes()[static_cast<size_t>(producer(gradient))];
    if (node.op != &op::scatter_add_rows || node.in[1] != inputs_->find("input_ids").id) return {};
    const Type rows = program_->type(node.in[0]);
    const int64_t all = options_.ranks * rows.shape[0];
    const size_t by_table = 2 * static_cast<size_t>(node.attrs.i("rows")) * size_of(options_.gradient_wire);
    if (rows.dtype != DType::f32 || static_cast<size_t>(all) * size_of(rows.dtype) >= by_table) return {};
    const Value own{program_.get(), node.in[0]};
    const Value of_all = program_->emit(op::gather_ranks, {own}, {{"ranks", int64_t{options_.ranks}}})[0];
    return program_->emit(op::scatter_add_rows, {of_all, ints("all_input_ids", all)}, node.attrs)[0];
  }

  /// The node that computes a value, or −1.
  int producer(Value value) const { return program_->values()[static_cast<size_t>(value.id)].producer; }

  /// The gradients of all trainable parameters in the order of the layout.
  std::vector<Value> backward(Value loss) {
    const Value weight = program_->input("loss_weight", {DType::f32, {1}});
    return ordered(gradients(loss, weight, trainable_, op::add));
  }

  std::vector<Value> ordered(const std::vector<Value>& grads) const {
    std::vector<Value> ordered;
    for (bool decay : {true, false}) {
      size_t k = 0;
      for (const nn::Block& block : model_.blocks()) {
        const nn::Parameter& p = model_.first_of(block);
        if (!p.trainable) continue;
        if (p.decay == decay) ordered.push_back(grads[k]);
        ++k;
      }
    }
    return ordered;
  }

  Value update(const FlatGradients& grads, Value loss) {
    HyperValues hyper{program_->input("hyper", {DType::f32, {kHyperCount}}), {}};
    if (options_.own_head_rate) hyper.head = program_->input("head_hyper", {DType::f32, {kHyperCount}});
    const FlatParameters parameters = flat_parameters(model_);
    OptimizerValues values{parameters_, grads, {}};
    for (const OptimizerState& state :
         optimizer_states(options_.optimizer, own_part(parameters, options_.shards)))
      values.states.push_back(flat(state.name.c_str(), state.size));
    return append_update(options_.optimizer, parameters, values, loss, hyper, options_.shards);
  }

  TaskModel& model_;
  Bucket bucket_;
  ProgramOptions options_;
  nn::Layout layout_;
  std::unique_ptr<Program> program_;
  std::optional<nn::Inputs> inputs_;
  nn::Trace trace_;
  std::optional<nn::TraceScope> tracing_;
  Value parameters_;
  std::vector<Value> trainable_;
};

}  // namespace

FlatParameters flat_parameters(const TaskModel& model) {
  FlatParameters flat;
  for (const bool decay : {true, false})
    for (const nn::Block& block : model.blocks())
      for (const int index : block.parameters) {
        const nn::Parameter& p = model.parameters()[static_cast<size_t>(index)];
        if (!p.trainable || p.decay != decay) continue;
        flat.shapes.push_back(p.shape);
        flat.of_head.push_back(!p.name.starts_with(model.base_prefix()));
      }
  flat.decayed = nn::layout_of(model).decayed;
  return flat;
}

std::unique_ptr<Program> build_program(TaskModel& model, ProgramKind kind, Bucket bucket,
                                       const ProgramOptions& options) {
  return Builder(model, bucket, options).build(kind);
}

}  // namespace lathe
