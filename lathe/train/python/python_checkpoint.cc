#include "lathe/train/python/python_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lathe/core/error.h"
#include "lathe/io/torch/pickle_json.h"
#include "lathe/io/torch/torch_file.h"

namespace lathe {
namespace {

using Ref = PickleBuilder::Ref;
using Values = PickleValue::Dict;
using Items = std::vector<std::pair<std::string, Ref>>;

// As Parameters::optimizer names them.
constexpr std::string_view kAdamW = "adamw", kSgd = "sgd", kAdafactor = "adafactor";

/// A tensor that an optimizer keeps of a parameter, and where it lies in which of the flat states.
struct Part {
  const char *key, *state;
  size_t offset;
  Shape shape;
};

/// A trainable parameter.
struct Place {
  const nn::Parameter* parameter;
  size_t offset;  ///< in the flat arena
  std::vector<Part> parts = {};
};

/// In the order of Python's numbers: those with weight decay, then the rest, each as declared.
std::vector<Place> places_of(const std::vector<nn::Parameter>& parameters, const nn::Layout& layout) {
  std::vector<Place> places;
  for (const bool decay : {true, false})
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].trainable && parameters[i].decay == decay)
        places.push_back({&parameters[i], static_cast<size_t>(layout.parameters[i].offset)});
  return places;
}

/// Adafactor keeps of a matrix a mean for each row, then one for each column, in the order of the flat
/// states. Source: op::adafactor.
void add_factors(std::vector<Place>& places) {
  std::vector<Place*> flat;
  for (Place& place : places) flat.push_back(&place);
  std::ranges::sort(flat, {}, &Place::offset);
  size_t kept = 0;
  const auto part = [&](const char* key, const Shape& shape) {
    const size_t offset = kept;
    kept += static_cast<size_t>(elements(shape));
    return Part{key, "exp_avg_sq_factors", offset, shape};
  };
  for (Place* const place : flat) {
    const Shape& shape = place->parameter->shape;
    if (shape.size() == 2) {
      place->parts.push_back(part("exp_avg_sq_row", {shape[0]}));
      place->parts.push_back(part("exp_avg_sq_col", {shape[1]}));
    } else {
      place->parts.push_back(part("exp_avg_sq", shape));
    }
  }
}

/// What the optimizer keeps of each.
void add_parts(std::vector<Place>& places, std::string_view optimizer, const OptimizerProgress& progress) {
  if (optimizer == kAdafactor) return add_factors(places);
  if (optimizer == kSgd && progress.sgd.momentum == 0) return;
  for (Place& place : places) {
    const auto part = [&](const char* key) { return Part{key, key, place.offset, place.parameter->shape}; };
    place.parts = optimizer == kSgd ? std::vector{part("momentum_buffer")}
                                    : std::vector{part("exp_avg"), part("exp_avg_sq")};
  }
}

/// What a group of parameters says of its optimizer, in the order of Python's.
Items settings_of(PickleBuilder& make, std::string_view optimizer, const OptimizerProgress& progress) {
  const Ref no = make.boolean(false), none = make.none();
  if (optimizer == kSgd)
    return {{"momentum", make.real(progress.sgd.momentum)},
            {"dampening", make.real(progress.sgd.dampening)},
            {"nesterov", make.boolean(progress.sgd.nesterov)},
            {"maximize", no},
            {"foreach", none},
            {"differentiable", no},
            {"fused", none}};
  if (optimizer == kAdafactor)
    return {{"eps", make.tuple({make.real(1e-30), make.real(1e-3)})},
            {"clip_threshold", make.real(AdafactorOptions{}.clip_threshold)},
            {"decay_rate", make.real(AdafactorOptions{}.decay_rate)},
            {"beta1", none},
            {"scale_parameter", no},
            {"relative_step", no},
            {"warmup_init", no}};
  const AdamWOptions& adamw = progress.adamw;
  return {{"betas", make.tuple({make.real(adamw.beta1), make.real(adamw.beta2)})},
          {"eps", make.real(adamw.eps)},
          {"amsgrad", no},
          {"maximize", no},
          {"foreach", none},
          {"capturable", no},
          {"differentiable", no},
          {"fused", progress.fused ? make.boolean(true) : none},
          {"decoupled_weight_decay", make.boolean(true)}};
}

Ref make_group(PickleBuilder& make, std::string_view optimizer, const OptimizerProgress& progress,
               double weight_decay, std::pair<size_t, size_t> numbers) {
  std::vector<Ref> params;
  for (size_t i = numbers.first; i < numbers.second; ++i)
    params.push_back(make.number(static_cast<int64_t>(i)));
  Items items = {{"weight_decay", make.real(weight_decay)}, {"lr", make.real(progress.learning_rate)}};
  for (auto& setting : settings_of(make, optimizer, progress)) items.push_back(std::move(setting));
  if (progress.metric_schedule.is_null())
    items.emplace_back("initial_lr", make.real(progress.base_learning_rate));
  items.emplace_back("params", make.list(std::move(params)));
  return make.dict(items);
}

TensorSource content_of(const Part& part, const Parameters& parameters) {
  return {DType::f32, part.shape,
          [&parameters, state = part.state, at = part.offset * sizeof(float)](size_t begin,
                                                                              std::span<std::byte> out) {
            return parameters.read_whole_state(state, at + begin, out);
          }};
}

/// What the optimizer keeps of a parameter, and its count of updates.  step: the count as AdamW has it.
Items state_of(PickleBuilder& make, const Parameters& parameters, const Place& place, const TensorView& step,
               int64_t applied) {
  const std::string optimizer = parameters.optimizer();
  Items items;
  if (optimizer == kAdamW) items.emplace_back("step", make.tensor(step));
  if (optimizer == kAdafactor) items.emplace_back("step", make.number(applied));
  for (const Part& part : place.parts)
    items.emplace_back(part.key, make.tensor(content_of(part, parameters)));
  if (optimizer == kAdafactor)
    items.emplace_back("RMS", make.number(0));  // each update sets it, then reads it
  return items;
}

Status write_optimizer(FileSystem& fs, const std::string& path, const Parameters& parameters,
                       const OptimizerProgress& progress) {
  const std::string optimizer = parameters.optimizer();
  const auto step = static_cast<float>(progress.applied);
  const TensorView step_view{DType::f32, {}, std::as_bytes(std::span(&step, 1))};
  std::vector<Place> places = places_of(parameters.model().parameters(), parameters.layout());
  add_parts(places, optimizer, progress);
  PickleBuilder make;
  std::vector<std::pair<int64_t, Ref>> state;
  size_t decayed = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const Items items = state_of(make, parameters, places[i], step_view, progress.applied);
    if (!items.empty()) state.emplace_back(static_cast<int64_t>(i), make.dict(items));
    decayed += places[i].parameter->decay ? 1 : 0;
  }
  if (progress.applied == 0) state.clear();  // as torch, whose first update makes it
  const auto group = [&](double weight_decay, size_t first, size_t end) {
    return make_group(make, optimizer, progress, weight_decay, {first, end});
  };
  const Ref root = make.dict({{"state", make.dict(state)},
                              {"param_groups", make.list({group(progress.adamw.weight_decay, 0, decayed),
                                                          group(0, decayed, places.size())})}});
  return write_torch_file(fs, path, *root);
}

/// torch.optim.lr_scheduler.LambdaLR, which all of get_scheduler's schedules are but those that read metrics.
Status write_scheduler(FileSystem& fs, const std::string& path, const OptimizerProgress& progress) {
  PickleBuilder make;
  if (!progress.metric_schedule.is_null())
    return write_torch_file(fs, path, *pickle_of(make, progress.metric_schedule));
  const auto both = [&make](double value) { return make.list({make.real(value), make.real(value)}); };
  const std::vector<std::pair<std::string, Ref>> none;
  return write_torch_file(fs, path,
                          *make.dict({{"base_lrs", both(progress.base_learning_rate)},
                                      {"last_epoch", make.number(progress.applied)},
                                      {"_step_count", make.number(progress.applied + 1)},
                                      {"_is_initial", make.boolean(false)},
                                      {"_get_lr_called_within_step", make.boolean(false)},
                                      {"_last_lr", both(progress.learning_rate)},
                                      {"lr_lambdas", make.list({make.dict(none), make.dict(none)})}}));
}

/// torch.amp.GradScaler with its defaults.
Status write_scaler(FileSystem& fs, const std::string& path, const LossScaler::State& state) {
  PickleBuilder make;
  return write_torch_file(fs, path,
                          *make.dict({{"scale", make.real(state.scale)},
                                      {"growth_factor", make.real(2)},
                                      {"backoff_factor", make.real(0.5)},
                                      {"growth_interval", make.number(LossScaler::kGrowthInterval)},
                                      {"_growth_tracker", make.number(state.growth_tracker)}}));
}

// Reading.  Every access is checked: these files come from anywhere.

/// A dict of a file, whose entries must be there.
class Entries {
 public:
  Entries(const PickleValue* value, const std::string& path, std::string what)
      : path_(path), what_(std::move(what)), dict_(value == nullptr ? nullptr : value->as<Values>()) {
    if (dict_ == nullptr)
      fail(ErrorCode::kInvalidData, "{}: {}: found {}, expected a dict", path_, what_,
           value == nullptr ? "nothing" : value->kind());
  }

  const PickleValue* find(std::string_view key) const { return dict_->find(key); }
  const Values& dict() const { return *dict_; }

  template <typename T>
  const T& get(std::string_view key) const {
    const PickleValue* value = dict_->find(key);
    const T* found = value == nullptr ? nullptr : value->as<T>();
    if (found == nullptr)
      fail(ErrorCode::kInvalidData, "{}: {}[\"{}\"]: found {}; is it a file of Hugging Face's Trainer?",
           path_, what_, key, value == nullptr ? "nothing" : value->kind());
    return *found;
  }

  /// A number of either type.
  double real(std::string_view key) const {
    const PickleValue* value = dict_->find(key);
    const auto* number = value == nullptr ? nullptr : value->as<int64_t>();
    return number != nullptr ? static_cast<double>(*number) : get<double>(key);
  }

 private:
  const std::string& path_;
  std::string what_;
  const Values* dict_;
};

int64_t whole_number(double value, const std::string& path, const std::string& what) {
  constexpr double kMost = 1LL << 53;
  if (!(value >= 0 && value <= kMost) || value != std::floor(value))
    fail(ErrorCode::kInvalidData, "{}: {}: found {}, expected a count of updates", path, what, value);
  return static_cast<int64_t>(value);
}

/// "step" of a parameter: a scalar tensor, or a number (torch before 1.12).
int64_t steps_of(const Entries& state, const std::string& path, const std::string& what) {
  const PickleValue* value = state.find("step");
  const auto* tensor = value == nullptr ? nullptr : value->as<TensorView>();
  if (tensor == nullptr) return whole_number(state.real("step"), path, what);
  float step = 0;
  if (elements(tensor->shape) != 1)
    fail(ErrorCode::kInvalidData, "{}: {}: found a step of shape {}, expected one number", path, what,
         to_string(tensor->shape));
  to_f32(*tensor, &step);
  return whole_number(step, path, what);
}

const TensorView* tensor_of(const Entries& state, const Part& part, const std::string& name,
                            const std::string& path) {
  const auto& tensor = state.get<TensorView>(part.key);
  if (tensor.shape != part.shape)
    fail(
        ErrorCode::kInvalidData,
        "{}: {} of {}: found shape {}, expected {}: the state of another model, or its parameters in another "
        "order",
        path, part.key, name, to_string(tensor.shape), to_string(part.shape));
  return &tensor;
}

/// The numbers of param_groups[index], which must go on from `next`.
size_t check_params(const Entries& group, const std::string& path, size_t next) {
  for (const PickleValue* item : group.get<PickleValue::List>("params").items) {
    const auto* number = item->as<int64_t>();
    if (number == nullptr || *number != static_cast<int64_t>(next))
      fail(ErrorCode::kUnsupported, "{}: expected parameters numbered in their order, found {} after {}",
           path, number == nullptr ? item->kind() : std::to_string(*number).c_str(), next);
    ++next;
  }
  return next;
}

bool is_true(const Entries& group, const char* key) {
  const PickleValue* value = group.find(key);
  return value != nullptr && value->as<bool>() != nullptr && *value->as<bool>();
}

/// Whether a group is of the Adafactor that Lathe has.
bool is_adafactor(const Entries& group) {
  const AdafactorOptions ours;
  const PickleValue* beta1 = group.find("beta1");
  return group.find("clip_threshold") != nullptr && group.real("clip_threshold") == ours.clip_threshold &&
         group.real("decay_rate") == ours.decay_rate && (beta1 == nullptr || beta1->is_none()) &&
         !is_true(group, "scale_parameter") && !is_true(group, "relative_step");
}

/// Whose settings a group of parameters has.
std::string_view optimizer_of(const Entries& group, const std::string& path) {
  const bool maximize = is_true(group, "maximize");
  if (group.find("betas") != nullptr && !is_true(group, "amsgrad") && !maximize) return kAdamW;
  if (group.find("dampening") != nullptr && !maximize) return kSgd;
  if (is_adafactor(group)) return kAdafactor;
  fail(ErrorCode::kUnsupported,
       "{}: the state of an optimizer other than AdamW, SGD and the Trainer's Adafactor, or with settings "
       "that Lathe has not; with --model_name_or_path in place of --resume_from_checkpoint a new run begins "
       "from its weights",
       path);
}

void read_settings(const Entries& group, const std::string& path, PythonOptimizer& out) {
  out.optimizer = optimizer_of(group, path);
  OptimizerProgress& progress = out.progress;
  if (out.optimizer == kSgd)
    progress.sgd = {.momentum = group.real("momentum"),
                    .dampening = group.real("dampening"),
                    .nesterov = is_true(group, "nesterov")};
  if (out.optimizer == kAdamW) {
    const auto& betas = group.get<PickleValue::Tuple>("betas").items;
    const double* beta1 = betas.size() == 2 ? betas[0]->as<double>() : nullptr;
    const double* beta2 = betas.size() == 2 ? betas[1]->as<double>() : nullptr;
    if (beta1 == nullptr || beta2 == nullptr)
      fail(ErrorCode::kInvalidData, "{}: betas: expected two numbers", path);
    progress.adamw = {*beta1, *beta2, group.real("eps")};
  }
  progress.adamw.weight_decay = group.real("weight_decay");
  progress.learning_rate = group.real("lr");
  progress.base_learning_rate =
      group.find("initial_lr") == nullptr ? progress.learning_rate : group.real("initial_lr");
}

void read_groups(const Entries& root, const std::string& path, const std::vector<Place>& places,
                 PythonOptimizer& out) {
  const auto& groups = root.get<PickleValue::List>("param_groups").items;
  if (groups.size() != 2)
    fail(ErrorCode::kUnsupported,
         "{}: found {} groups of parameters, expected 2: with weight decay and without", path, groups.size());
  const Entries decayed(groups[0], path, "param_groups[0]"), rest(groups[1], path, "param_groups[1]");
  const auto decay = static_cast<size_t>(
      std::count_if(places.begin(), places.end(), [](const Place& place) { return place.parameter->decay; }));
  const size_t first = check_params(decayed, path, 0), all = check_params(rest, path, first);
  if (first != decay || all != places.size())
    fail(ErrorCode::kInvalidData,
         "{}: found {} parameters with weight decay and {} without, this model trains {} and {}; resume with "
         "the same model, labels, --freeze_base_model and --use_peft",
         path, first, all - first, decay, places.size() - decay);
  read_settings(decayed, path, out);
}

void read_states(const std::vector<PythonOptimizer::Part>& parts, const TorchFile& file,
                 Parameters& parameters) {
  std::vector<float> room;
  for (const OptimizerState& kept : parameters.optimizer_states()) {
    std::vector<PythonOptimizer::Part> found;
    std::ranges::copy_if(parts, std::back_inserter(found),
                         [&](const auto& part) { return part.state == kept.name; });
    int64_t size = 0;
    for (const auto& part : found) size += elements(part.tensor->shape);
    if (size != kept.size) {  // no update yet, or SGD with a momentum only there or only here
      parameters.clear_state(kept.name);
      continue;
    }
    for (const auto& part : found) {
      parameters.write_state(kept.name, part.offset, f32_of(*part.tensor, room));
      file.release(*part.tensor);
    }
  }
}

void read_scheduler(FileSystem& fs, const std::string& path, OptimizerProgress& progress) {
  progress.schedule_step = progress.applied;
  if (!fs.exists(path)) return;
  const TorchFile file = TorchFile::open(fs, path);
  const Entries root(&file.root(), path, "the file");
  if (root.find("num_bad_epochs") != nullptr)
    progress.metric_schedule = json_of(file.root());
  else
    progress.schedule_step = whole_number(root.real("last_epoch"), path, "last_epoch");
}

}  // namespace

Status write_python_state(FileSystem& fs, const std::string& folder, const Parameters& parameters,
                          const OptimizerProgress& progress, const std::optional<LossScaler::State>& scaler) {
  Status status = write_optimizer(fs, join_path(folder, kOptimizerFile), parameters, progress);
  if (status.ok()) status = write_scheduler(fs, join_path(folder, kSchedulerFile), progress);
  if (status.ok() && scaler) status = write_scaler(fs, join_path(folder, kScalerFile), *scaler);
  return status;
}

PythonOptimizer python_optimizer_from(const PickleValue& root, const std::string& path,
                                      const std::vector<nn::Parameter>& parameters,
                                      const nn::Layout& layout) {
  const Entries entries(&root, path, "the file");
  std::vector<Place> places = places_of(parameters, layout);
  PythonOptimizer out;
  read_groups(entries, path, places, out);
  add_parts(places, out.optimizer, out.progress);
  const Entries states(entries.find("state"), path, "state");
  int64_t& applied = out.progress.applied;
  for (size_t i = 0; i < places.size() && !states.dict().items.empty(); ++i) {
    const std::string& name = places[i].parameter->name;
    if (places[i].parts.empty()) continue;
    const Entries state(states.dict().find(static_cast<int64_t>(i)), path, "state of " + name);
    const int64_t steps = out.optimizer == kSgd ? 0 : steps_of(state, path, name);
    if (i > 0 && steps != applied)
      fail(ErrorCode::kInvalidData, "{}: {}: found {} updates, the parameters before it have {}", path, name,
           steps, applied);
    applied = steps;
    for (const Part& part : places[i].parts)
      out.parts.push_back({part.state, part.offset, tensor_of(state, part, name, path)});
  }
  return out;
}

OptimizerProgress read_python_state(FileSystem& fs, const std::string& folder, Parameters& parameters,
                                    int64_t updates, bool known) {
  const std::string path = join_path(folder, kOptimizerFile);
  const TorchFile file = TorchFile::open(fs, path, false, known);
  PythonOptimizer state =
      python_optimizer_from(file.root(), path, parameters.model().parameters(), parameters.layout());
  if (state.optimizer != parameters.optimizer())
    fail(ErrorCode::kInvalidData,
         "{}: written by the optimizer {}, this run's is {}; resume with the same --optim", path,
         state.optimizer, parameters.optimizer());
  read_states(state.parts, file, parameters);
  OptimizerProgress& progress = state.progress;
  if (state.optimizer == kSgd) progress.applied = updates;
  read_scheduler(fs, join_path(folder, kSchedulerFile), progress);
  if (state.optimizer == kSgd) progress.applied = progress.schedule_step;
  return progress;
}

LossScaler::State read_python_scaler(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kScalerFile);
  if (!fs.exists(path)) return {};
  const TorchFile file = TorchFile::open(fs, path);
  const Entries root(&file.root(), path, "the file");
  LossScaler::State state;
  state.scale = root.real("scale");
  state.growth_tracker = root.get<int64_t>("_growth_tracker");
  if (!(state.scale > 0) || !std::isfinite(state.scale))
    fail(ErrorCode::kInvalidData, "{}: scale: found {}, expected one above 0", path, state.scale);
  return state;
}

}  // namespace lathe
