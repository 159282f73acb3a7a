#include "lathe/data/retrieval/no_duplicates.h"

#include <algorithm>
#include <unordered_map>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr int kDrawsAnew = 2;

using Batches = std::vector<std::vector<int32_t>>;

// The texts of the batch that is being filled.
class TextsOfBatch {
 public:
  explicit TextsOfBatch(size_t texts) : batch_of_(texts, 0) {}

  void begin() { ++batch_; }
  bool has_one_of(std::span<const int32_t> texts) const {
    return std::any_of(texts.begin(), texts.end(),
                       [&](int32_t text) { return batch_of_[static_cast<size_t>(text)] == batch_; });
  }
  void add(std::span<const int32_t> texts) {
    for (const int32_t text : texts) batch_of_[static_cast<size_t>(text)] = batch_;
  }

 private:
  std::vector<int64_t> batch_of_;  // of each text the last batch that has it
  int64_t batch_ = 0;
};

// Appends the batches of one order of the samples, at most `most`.
void append_batches(Batches& out, std::vector<int32_t> waiting, std::span<const std::vector<int32_t>> texts,
                    TextsOfBatch& known, const NoDuplicatesOptions& options, size_t most) {
  const auto size = static_cast<size_t>(options.batch_size);
  size_t begin = 0;  // of those that wait
  while (begin < waiting.size() && out.size() < most) {
    known.begin();
    std::vector<int32_t> batch, later;
    size_t i = begin;
    for (; i < waiting.size() && batch.size() < size; ++i) {
      const std::vector<int32_t>& sample = texts[static_cast<size_t>(waiting[i])];
      if (known.has_one_of(sample)) {
        later.push_back(waiting[i]);
        continue;
      }
      batch.push_back(waiting[i]);
      known.add(sample);
    }
    if (batch.size() == size || !options.drop_last) out.push_back(std::move(batch));
    begin = i - later.size();  // they come before those that were not looked at
    std::copy(later.begin(), later.end(), waiting.begin() + static_cast<ptrdiff_t>(begin));
  }
}

}  // namespace

std::vector<std::vector<int32_t>> text_numbers(std::span<const std::vector<std::string>> columns) {
  std::vector<std::vector<int32_t>> out(columns.empty() ? 0 : columns[0].size());
  std::unordered_map<std::string_view, int32_t> numbers;
  for (const std::vector<std::string>& column : columns) {
    if (column.size() != out.size())
      fail(ErrorCode::kUsage, "columns of {} and {} texts, expected as many", out.size(), column.size());
    for (size_t i = 0; i < column.size(); ++i)
      out[i].push_back(numbers.try_emplace(column[i], static_cast<int32_t>(numbers.size())).first->second);
  }
  return out;
}

NoDuplicatesBatches no_duplicates_batches(std::span<const std::vector<int32_t>> texts,
                                          const NoDuplicatesOptions& options) {
  if (options.batch_size < 1)
    fail(ErrorCode::kUsage, "no_duplicates: batch size {}: expected 1 or more", options.batch_size);
  int32_t greatest = -1;
  for (const std::vector<int32_t>& sample : texts)
    for (const int32_t text : sample) greatest = std::max(greatest, text);
  const auto size = static_cast<size_t>(options.batch_size);
  const size_t wanted = (texts.size() + (options.drop_last ? 0 : size - 1)) / size;
  TextsOfBatch known(static_cast<size_t>(greatest + 1));
  TorchGenerator random(options.seed);
  NoDuplicatesBatches out;
  const auto draw = [&](size_t most) {
    append_batches(out.batches, random.randperm(static_cast<int64_t>(texts.size())), texts, known, options,
                   most);
  };
  if (!texts.empty()) draw(texts.size());  // all, where batches are small
  const size_t first = out.batches.size();
  for (int i = 0; i < kDrawsAnew && first > 0 && out.batches.size() < wanted; ++i) draw(wanted);
  out.repeated = static_cast<int64_t>(out.batches.size() - first);
  if (out.batches.size() < wanted) out.missing = static_cast<int64_t>(wanted - out.batches.size());
  return out;
}

}  // namespace lathe
