#include "lathe/tasks/check_dataset.h"

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// Every sample lies within the arena.
void check_tokens(const TokenizedDataset& data, const char* what) {
  if (data.begins.empty())
    fail(ErrorCode::kInvalidData,
         "{}: found no begins of samples, expected one for each and the end of the last", what);
  if (data.begins[0] < 0)
    fail(ErrorCode::kInvalidData, "{}: sample 0 begins at token {}, expected 0 or more", what,
         data.begins[0]);
  for (int64_t row = 0; row < data.rows(); ++row)
    if (data.begins[row] >= data.begins[row + 1])
      fail(ErrorCode::kInvalidData, "{}: {} {} has no tokens, expected at least one: is its text empty?",
           what, data.first_rows.empty() ? "sample" : "row", row);
  for (const auto& [count, name] :
       {std::pair{std::ssize(data.input_ids), "token ids"}, {std::ssize(data.type_ids), "type ids"}})
    if (count < data.tokens())
      fail(ErrorCode::kInvalidData, "{}: found {} {}, expected {}, where the last sample ends", what, count,
           name, data.tokens());
}

/// Every sample has as many rows as the task compares.
void check_rows(const TokenizedDataset& data, const Task& task, const char* what) {
  if (!task.compares_rows()) {
    if (!data.first_rows.empty())
      fail(ErrorCode::kInvalidData, "{}: found samples of several rows, expected one row each for this head",
           what);
    return;
  }
  if (data.rows() > 0 &&
      (data.first_rows.empty() || data.first_rows.front() != 0 || data.first_rows.back() != data.rows()))
    fail(ErrorCode::kInvalidData, "{}: found no first rows of samples from 0 to {}, which this head compares",
         what, data.rows());
  for (int64_t i = 0; i < data.size(); ++i)
    if (data.rows_of(i) < 2)
      fail(ErrorCode::kInvalidData, "{}: sample {} has {} rows, expected at least 2 to choose from", what, i,
           data.rows_of(i));
}

/// How messages call what a tensor holds.
std::string words_of(const Tensor& tensor) {
  if (tensor.name == "labels" && std::holds_alternative<std::vector<float>>(tensor.values)) return "targets";
  std::string words = tensor.name;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

int64_t wanted_size(const TokenizedDataset& data, const Tensor& tensor) {
  return tensor.width * (tensor.extent == Extent::kRow ? data.size() : data.tokens());
}

}  // namespace

void check_dataset(const TokenizedDataset& data, const Task& task, const char* what) {
  check_tokens(data, what);
  check_rows(data, task, what);
  for (const Tensor& tensor : data.tensors)
    if (tensor.size() > 0 && static_cast<int64_t>(tensor.size()) != wanted_size(data, tensor))
      fail(ErrorCode::kInvalidData, "{}: found {} {}, expected {}", what, tensor.size(), words_of(tensor),
           wanted_size(data, tensor));
  const std::vector<Task::Target>& targets = task.targets();
  if (!task.is_labelled(data.tensors)) {
    for (const Task::Target& target : targets)
      if (data.tensors.find(target.name) == nullptr && data.tensors.find(targets[0].name) != nullptr)
        fail(ErrorCode::kInvalidData, "{}: found 0 {}, expected {} as there are {}", what, target.words,
             data.tensors.find(targets[0].name)->size(), targets[0].words);
    for (const Tensor& tensor : data.tensors)
      if (tensor.size() > 0 && tensor.extent != Extent::kScored)  // which tokens are to be scored
        fail(ErrorCode::kInvalidData, "{}: found {}, expected {} for this head", what, words_of(tensor),
             targets[0].words);
    return;
  }
  for (const Task::Target& target : targets) {
    const Tensor& tensor = *data.tensors.find(target.name);
    if ((tensor.extent == Extent::kRow) != (target.extent == Extent::kRow))
      fail(ErrorCode::kInvalidData, "{}: found {} for each {}, expected one for each {}", what, target.words,
           tensor.extent == Extent::kRow ? "sample" : "token",
           target.extent == Extent::kRow ? "sample" : "token");
    if (tensor.width != target.width)
      fail(ErrorCode::kInvalidData, "{}: found {} {} for each sample, expected {}", what, tensor.width,
           target.words, target.width);
  }
  task.check_values(data, what);
}

}  // namespace lathe
