#include "lathe/models/pretrained.h"

#include <algorithm>
#include <set>

#include "lathe/core/error.h"

namespace lathe {
namespace {

std::string replace_end(const std::string& name, const std::string& end, const std::string& with) {
  if (!name.ends_with(end)) return name;
  return name.substr(0, name.size() - end.size()) + with;
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// The names under which a checkpoint may hold a parameter, likeliest first.
std::vector<std::string> spellings(const std::string& name, const std::string& base_prefix) {
  std::vector<std::string> all{name, without_prefix(name, base_prefix)};
  for (size_t i = 0; i < 2; ++i) {
    all.push_back(replace_end(all[i], "LayerNorm.weight", "LayerNorm.gamma"));
    all.push_back(replace_end(all[i], "LayerNorm.bias", "LayerNorm.beta"));
  }
  return all;
}

/// Buffers, and tensors tied to others in heads that this model does not have.
bool says_nothing_new(const std::string& name) {
  for (const char* end :
       {"embeddings.position_ids", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias",
        "lm_head.decoder.weight", "lm_head.decoder.bias", "vocab_projector.weight"})
    if (name.ends_with(end)) return true;
  return false;
}

/// The value of a tensor in a file; the names under which a tied one may stand come last.
struct Found {
  const TensorView* view = nullptr;
  std::string name;
};

Found find_tensor(const TaskModel& model, const Checkpoint& checkpoint, const std::string& parameter) {
  Found found;
  std::vector<std::string> names = spellings(parameter, model.base_prefix());
  for (const TaskModel::Tie& tie : model.ties())
    if (tie.source == parameter) names.push_back(tie.name);
  for (const std::string& name : names) {
    found = {checkpoint.find(name), name};
    if (found.view != nullptr) return found;
  }
  found.name = parameter;
  return found;
}

/// Transformers gives up a tie whose two tensors have other values in a file, and trains both.
void check_tie(const TaskModel& model, const Checkpoint& checkpoint, const TaskModel::Tie& tie) {
  const TensorView* tied = checkpoint.find(tie.name);
  const Found source = find_tensor(model, checkpoint, tie.source);
  if (tied == nullptr || source.view == nullptr || source.name == tie.name) return;
  std::vector<float> room, other_room;
  const auto a = f32_of(*tied, room), b = f32_of(*source.view, other_room);
  if (tied->shape == source.view->shape && std::equal(a.begin(), a.end(), b.begin())) return;
  fail(ErrorCode::kUnsupported,
       "{}: {} has other values than {}, which Lathe trains as one tensor; leave out the first to take the "
       "second for both",
       checkpoint.file_of(tie.name), tie.name, source.name);
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void check_finite(const TensorView& view, const std::string& name, const std::string& file) {
  const auto at = find_non_finite(view);
  if (at)
    fail(ErrorCode::kInvalidData,
         "{}: tensor {} {} holds NaN or infinity at element {}; such a checkpoint cannot be trained: take an "
         "earlier one",
         file, name, to_string(view.shape), *at);
}

LoadReport load_parameters(const TaskModel& model, const Checkpoint& checkpoint,
                           const std::function<void(int, const TensorView&)>& write) {
  LoadReport report;
  std::set<std::string> used;
  for (const TaskModel::Tie& tie : model.ties()) used.insert(tie.name);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const nn::Parameter& p = model.parameters()[i];
    if (p.of_adapter) continue;
    const auto [view, name] = find_tensor(model, checkpoint, p.name);
    if (view == nullptr || view->shape != p.shape) {
      report.missing.push_back(static_cast<int>(i));
      if (view == nullptr) continue;
      report.mismatched.push_back({static_cast<int>(i), name, to_string(view->shape), to_string(p.shape)});
      used.insert(name);
      continue;
    }
    used.insert(name);
    check_finite(*view, name, checkpoint.file_of(name));
    write(static_cast<int>(i), *view);
    checkpoint.release(name);
  }
  for (const TaskModel::Tie& tie : model.ties()) check_tie(model, checkpoint, tie);
  for (const std::string& name : checkpoint.names())
    if (used.count(name) == 0 && !says_nothing_new(name)) report.unexpected.push_back(name);
  return report;
}

void note_storage(TaskModel& model, const Checkpoint& checkpoint) {
  const std::vector<TaskModel::Tie> ties = model.ties();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const nn::Parameter& p = model.parameters()[i];
    const TensorView* view = p.is_table ? find_tensor(model, checkpoint, p.name).view : nullptr;
    if (view == nullptr || view->shape != p.shape) continue;
    if (view->dtype != DType::bf16 && view->dtype != DType::f16) continue;
    model.set_stored(static_cast<int>(i), view->dtype,
                     std::ranges::any_of(ties, [&](const auto& tie) { return tie.source == p.name; }));
  }
}

std::string to_string(const LoadReport& report, const TaskModel& model, const std::string& folder) {
  std::string text;
  if (!report.unexpected.empty())
    text += fmt::format("{}: not used by this model: {}\n", folder, list(report.unexpected));
  std::vector<std::string> fresh;
  for (int index : report.missing) fresh.push_back(model.parameters()[static_cast<size_t>(index)].name);
  if (!fresh.empty())
    text += fmt::format(
        "{}: newly initialised, since the checkpoint has them not or in another shape: {}. Train the "
        "model before you use its predictions.\n",
        folder, list(fresh));
  for (const LoadReport::Mismatch& m : report.mismatched)
    text += fmt::format("{}: {} is {}, the model needs {}\n", folder, m.name, m.found, m.wanted);
  return text;
}

}  // namespace lathe
