#include "lathe/train/python_checkpoint.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/io/pickle_writer.h"
#include "lathe/io/torch_file.h"

namespace lathe {
namespace {

using Ref = PickleBuilder::Ref;
using Values = PickleValue::Dict;

/// A trainable parameter where its moments lie in the flat arenas.
struct Place {
  const nn::Parameter* parameter;
  size_t offset, count;
};

/// In the order of Python's numbers: those with weight decay, then the rest.
std::vector<Place> places_of(const std::vector<nn::Parameter>& parameters, const nn::FlatLayout& layout) {
  std::vector<Place> places;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].trainable)
      places.push_back({&parameters[i], static_cast<size_t>(layout.offset[i]),
                        static_cast<size_t>(elements(parameters[i].shape))});
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
  return places;
}

Ref make_group(PickleBuilder& make, const OptimizerProgress& progress, double weight_decay,
               std::pair<size_t, size_t> numbers) {
  std::vector<Ref> params;
  for (size_t i = numbers.first; i < numbers.second; ++i)
    params.push_back(make.number(static_cast<int64_t>(i)));
  const AdamWOptions& adamw = progress.adamw;
  return make.dict({{"weight_decay", make.real(weight_decay)},
                    {"lr", make.real(progress.learning_rate)},
                    {"betas", make.tuple({make.real(adamw.beta1), make.real(adamw.beta2)})},
                    {"eps", make.real(adamw.eps)},
                    {"amsgrad", make.boolean(false)},
                    {"maximize", make.boolean(false)},
                    {"foreach", make.none()},
                    {"capturable", make.boolean(false)},
                    {"differentiable", make.boolean(false)},
                    {"fused", progress.fused ? make.boolean(true) : make.none()},
                    {"decoupled_weight_decay", make.boolean(true)},
                    {"initial_lr", make.real(progress.base_learning_rate)},
                    {"params", make.list(std::move(params))}});
}

Status write_optimizer(FileSystem& fs, const std::string& path, const Session& session,
                       const StateValues& states, const OptimizerProgress& progress) {
  const std::vector<float>&first = states.at("exp_avg"), &second = states.at("exp_avg_sq");
  const auto step = static_cast<float>(progress.applied);
  const TensorView step_view{DType::f32, {}, std::as_bytes(std::span(&step, 1))};
  const std::vector<Place> places = places_of(session.model().parameters(), session.layout());
  PickleBuilder make;
  std::vector<std::pair<int64_t, Ref>> state;
  size_t decayed = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto part = [&](const std::vector<float>& values) {
      const std::span<const float> own = std::span(values).subspan(places[i].offset, places[i].count);
      return make.tensor({DType::f32, places[i].parameter->shape, std::as_bytes(own)});
    };
    state.emplace_back(static_cast<int64_t>(i), make.dict({{"step", make.tensor(step_view)},
                                                           {"exp_avg", part(first)},
                                                           {"exp_avg_sq", part(second)}}));
    decayed += places[i].parameter->decay ? 1 : 0;
  }
  if (progress.applied == 0) state.clear();  // as torch, whose first update makes it
  const Ref root = make.dict(
      {{"state", make.dict(state)},
       {"param_groups", make.list({make_group(make, progress, progress.adamw.weight_decay, {0, decayed}),
                                   make_group(make, progress, 0, {decayed, places.size()})})}});
  return write_torch_file(fs, path, *root);
}

/// torch.optim.lr_scheduler.LambdaLR, which all of get_scheduler's schedules are but one.
Status write_scheduler(FileSystem& fs, const std::string& path, const OptimizerProgress& progress) {
  PickleBuilder make;
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
      fail(ErrorCode::kInvalidData, "{}: {}: found {}, wants a dict", path_, what_,
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
    fail(ErrorCode::kInvalidData, "{}: {}: found {}, wants a count of updates", path, what, value);
  return static_cast<int64_t>(value);
}

/// "step" of a parameter: a scalar tensor, or a number (torch before 1.12).
int64_t steps_of(const Entries& state, const std::string& path, const std::string& what) {
  const PickleValue* value = state.find("step");
  const auto* tensor = value == nullptr ? nullptr : value->as<TensorView>();
  if (tensor == nullptr) return whole_number(state.real("step"), path, what);
  float step = 0;
  if (elements(tensor->shape) != 1)
    fail(ErrorCode::kInvalidData, "{}: {}: found a step of shape {}, wants one number", path, what,
         to_string(tensor->shape));
  to_f32(*tensor, &step);
  return whole_number(step, path, what);
}

void read_moment(const Entries& state, const char* key, const Place& place, const std::string& path,
                 std::vector<float>& out) {
  const auto& tensor = state.get<TensorView>(key);
  if (tensor.shape != place.parameter->shape)
    fail(ErrorCode::kInvalidData,
         "{}: {} of {}: found shape {}, wants {}: the state of another model, or its parameters in another "
         "order",
         path, key, place.parameter->name, to_string(tensor.shape), to_string(place.parameter->shape));
  to_f32(tensor, out.data() + place.offset);
}

/// The numbers of param_groups[index], which must go on from `next`.
size_t check_params(const Entries& group, const std::string& path, size_t next) {
  for (const PickleValue* item : group.get<PickleValue::List>("params").items) {
    const auto* number = item->as<int64_t>();
    if (number == nullptr || *number != static_cast<int64_t>(next))
      fail(ErrorCode::kUnsupported, "{}: wants parameters numbered in their order, found {} behind {}", path,
           number == nullptr ? item->kind() : std::to_string(*number).c_str(), next);
    ++next;
  }
  return next;
}

OptimizerProgress read_groups(const Entries& root, const std::string& path,
                              const std::vector<Place>& places) {
  const auto& groups = root.get<PickleValue::List>("param_groups").items;
  if (groups.size() != 2)
    fail(ErrorCode::kUnsupported, "{}: found {} groups of parameters, wants 2: with weight decay and without",
         path, groups.size());
  const Entries decayed(groups[0], path, "param_groups[0]"), rest(groups[1], path, "param_groups[1]");
  const auto decay = static_cast<size_t>(
      std::count_if(places.begin(), places.end(), [](const Place& place) { return place.parameter->decay; }));
  const size_t first = check_params(decayed, path, 0), all = check_params(rest, path, first);
  if (first != decay || all != places.size())
    fail(ErrorCode::kInvalidData,
         "{}: found {} parameters with weight decay and {} without, this model trains {} and {}; resume with "
         "the same model, labels and --freeze_base_model",
         path, first, all - first, decay, places.size() - decay);
  const PickleValue* amsgrad = decayed.find("amsgrad");
  if (decayed.find("betas") == nullptr ||
      (amsgrad != nullptr && amsgrad->as<bool>() != nullptr && *amsgrad->as<bool>()))
    fail(ErrorCode::kUnsupported, "{}: the state of an optimizer other than AdamW, which Lathe has not",
         path);
  OptimizerProgress out;
  const auto& betas = decayed.get<PickleValue::Tuple>("betas").items;
  const double* beta1 = betas.size() == 2 ? betas[0]->as<double>() : nullptr;
  const double* beta2 = betas.size() == 2 ? betas[1]->as<double>() : nullptr;
  if (beta1 == nullptr || beta2 == nullptr)
    fail(ErrorCode::kInvalidData, "{}: betas: wants two numbers", path);
  out.adamw = {*beta1, *beta2, decayed.real("eps"), decayed.real("weight_decay")};
  out.learning_rate = decayed.real("lr");
  out.base_learning_rate =
      decayed.find("initial_lr") == nullptr ? out.learning_rate : decayed.real("initial_lr");
  return out;
}

}  // namespace

Status write_python_state(FileSystem& fs, const std::string& folder, const Session& session,
                          const StateValues& states, const OptimizerProgress& progress,
                          const std::optional<LossScaler::State>& scaler) {
  Status status = write_optimizer(fs, join_path(folder, kOptimizerFile), session, states, progress);
  if (status.ok() && !progress.by_metric)
    status = write_scheduler(fs, join_path(folder, kSchedulerFile), progress);
  if (status.ok() && scaler) status = write_scaler(fs, join_path(folder, kScalerFile), *scaler);
  return status;
}

PythonOptimizer python_optimizer_from(const PickleValue& root, const std::string& path,
                                      const std::vector<nn::Parameter>& parameters,
                                      const nn::FlatLayout& layout) {
  const Entries entries(&root, path, "the file");
  const std::vector<Place> places = places_of(parameters, layout);
  PythonOptimizer out;
  out.progress = read_groups(entries, path, places);
  out.exp_avg.resize(static_cast<size_t>(layout.trainable));
  out.exp_avg_sq.resize(out.exp_avg.size());
  const Entries states(entries.find("state"), path, "state");
  int64_t& applied = out.progress.applied;
  for (size_t i = 0; i < places.size() && !states.dict().items.empty(); ++i) {
    const std::string& name = places[i].parameter->name;
    const Entries state(states.dict().find(static_cast<int64_t>(i)), path, "state of " + name);
    const int64_t steps = steps_of(state, path, name);
    if (i > 0 && steps != applied)
      fail(ErrorCode::kInvalidData, "{}: {}: found {} updates, the parameters before it have {}", path, name,
           steps, applied);
    applied = steps;
    read_moment(state, "exp_avg", places[i], path, out.exp_avg);
    read_moment(state, "exp_avg_sq", places[i], path, out.exp_avg_sq);
  }
  return out;
}

OptimizerProgress read_python_state(FileSystem& fs, const std::string& folder, Session& session) {
  const std::string path = join_path(folder, kOptimizerFile);
  PythonOptimizer state = python_optimizer_from(TorchFile::open(fs, path).root(), path,
                                                session.model().parameters(), session.layout());
  session.write_state("exp_avg", state.exp_avg);
  session.write_state("exp_avg_sq", state.exp_avg_sq);
  state.progress.schedule_step = state.progress.applied;
  if (const std::string schedule = join_path(folder, kSchedulerFile); fs.exists(schedule)) {
    const TorchFile scheduler = TorchFile::open(fs, schedule);
    state.progress.schedule_step =
        Entries(&scheduler.root(), schedule, "the file").get<int64_t>("last_epoch");
  }
  return state.progress;
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
    fail(ErrorCode::kInvalidData, "{}: scale: found {}, wants one above 0", path, state.scale);
  return state;
}

}  // namespace lathe
