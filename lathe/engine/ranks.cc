#include "lathe/engine/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "lathe/core/log.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

template <typename T>
void put(std::vector<std::byte>& bytes, const T* values, size_t count) {
  const auto from = std::as_bytes(std::span(values, count));
  bytes.insert(bytes.end(), from.begin(), from.end());
}

template <typename T>
void take(std::span<const std::byte>& bytes, T* values, size_t count) {
  if (bytes.size() < count * sizeof(T)) fail(ErrorCode::kInternal, "a rank's message ends too soon");
  std::memcpy(values, bytes.data(), count * sizeof(T));
  bytes = bytes.subspan(count * sizeof(T));
}

std::vector<std::vector<double>> numbers_of_all(ProcessGroup& group, const std::vector<double>& mine) {
  std::vector<std::vector<double>> all;
  for (const auto& bytes : group.all_gather(std::as_bytes(std::span(mine))).value()) {
    std::span<const std::byte> rest(bytes);
    all.emplace_back(mine.size());
    take(rest, all.back().data(), mine.size());
  }
  return all;
}

std::vector<BatchScores> scores_in(std::span<const std::byte> bytes) {
  std::vector<BatchScores> all;
  while (!bytes.empty()) {
    BatchScores& scores = all.emplace_back();
    int64_t sizes[4];
    take(bytes, &scores.loss, 1);
    take(bytes, sizes, 4);
    scores.rows = sizes[0], scores.units = sizes[1], scores.correct = sizes[3];
    scores.logits.resize(static_cast<size_t>(sizes[2]));
    take(bytes, scores.logits.data(), scores.logits.size());
  }
  return all;
}

/// "none" where a flag is not given.
std::string text_of(const nlohmann::json& value) {
  if (value.is_null()) return "none";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

bool speaks_for_all(const ProcessGroup* group, const std::string& log_level_replica) {
  return is_main(group) || log_level_from(log_level_replica) < LogLevel::kWarning;
}

std::vector<double> sum_over(ProcessGroup* group, const std::vector<double>& mine) {
  if (group == nullptr) return mine;
  std::vector<double> sums(mine.size(), 0.0);
  for (const auto& numbers : numbers_of_all(*group, mine))
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
  return sums;
}

int64_t least_over(ProcessGroup* group, int64_t mine) {
  if (group == nullptr) return mine;
  double least = static_cast<double>(mine);
  for (const auto& numbers : numbers_of_all(*group, {least})) least = std::min(least, numbers[0]);
  return static_cast<int64_t>(least);
}

std::vector<std::string> texts_of_all(ProcessGroup* group, const std::string& mine) {
  if (group == nullptr) return {mine};
  std::vector<std::string> all;
  for (const auto& bytes : group->all_gather(std::as_bytes(std::span(mine))).value())
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

std::string text_of_main(ProcessGroup* group, const std::string& mine) {
  return texts_of_all(group, mine)[0];
}

void check_alike(ProcessGroup* group, const nlohmann::json& mine) {
  if (group == nullptr) return;
  const std::vector<std::string> all =
      texts_of_all(group, mine.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const nlohmann::json first = parse_json(all[0], "the settings of rank 0");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const nlohmann::json other = parse_json(all[rank], fmt::format("the settings of rank {}", rank));
    nlohmann::json either = first;
    either.update(other);
    for (const auto& item : either.items()) {
      const std::string& name = item.key();
      const nlohmann::json here = first.value(name, nlohmann::json());
      const nlohmann::json there = other.value(name, nlohmann::json());
      if (here == there) continue;
      static_cast<void>(group->barrier());  // a rank that ends closes connections that others may still read
                                            // from
      fail(ErrorCode::kUsage,
           "{}: rank 0 has {}, rank {} has {}: all ranks must do the same run, with the same flags, data and "
           "model",
           name, text_of(here), rank, text_of(there));
    }
  }
}

void all_or_none(ProcessGroup* group, const std::function<void()>& work) {
  if (group == nullptr) return work();
  std::optional<Error> own;
  try {
    work();
  } catch (const Error& error) {
    own = error;
  }
  const std::vector<std::string> errors = texts_of_all(group, own ? own->what() : "");
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].empty()) continue;
    static_cast<void>(group->barrier());  // a rank that ends closes connections that others may still read
                                          // from
    if (own) throw *own;
    fail(ErrorCode::kInvalidData, "rank {}: {}", rank, errors[rank]);
  }
}

nlohmann::json common_flags(const nlohmann::ordered_json& settings) {
  // Paths (their contents are compared; only rank 0 writes), and settings that each process has for itself.
  constexpr std::string_view kOwn[] = {"model_name_or_path",
                                       "config_name",
                                       "tokenizer_name",
                                       "cache_dir",
                                       "token",
                                       "train_file",
                                       "validation_file",
                                       "test_file",
                                       "data_dir",
                                       "output_dir",
                                       "logging_dir",
                                       "resume_from_checkpoint",
                                       "threads",
                                       "local_rank",
                                       "log_level",
                                       "log_level_replica",
                                       "disable_tqdm"};
  nlohmann::json flags = nlohmann::json::object();
  for (const auto& [name, value] : settings.items())
    if (std::find(std::begin(kOwn), std::end(kOwn), name) == std::end(kOwn)) flags["--" + name] = value;
  return flags;
}

std::string summary(std::span<const TokenizedDataset> parts) {
  int64_t samples = 0;
  Checksum sum;
  for (const TokenizedDataset& part : parts) {
    samples += part.size();
    sum.add(part.input_ids).add(part.type_ids).add(part.begins);
    if (!part.first_rows.empty()) sum.add(part.first_rows);
    // In the order of the lists that the first checkpoints knew, empty ones too; then any other.
    constexpr std::string_view kLabels = "labels", kStarts = "start_positions", kEnds = "end_positions";
    const TensorList& tensors = part.tensors;
    sum.add(tensors.ints(kLabels))
        .add(tensors.floats(kLabels))
        .add(tensors.ints(kStarts))
        .add(tensors.ints(kEnds));
    for (const Tensor& tensor : tensors)
      if (tensor.name != kLabels && tensor.name != kStarts && tensor.name != kEnds) sum.add(tensor.bytes());
  }
  return fmt::format("{} samples with {}", samples, sum.text());
}

Checksum& Checksum::add(std::span<const std::byte> bytes) {
  const auto add_word = [this](uint32_t word) { sum_ = (sum_ ^ word) * 0x100000001b3; };
  add_word(static_cast<uint32_t>(bytes.size()));
  uint32_t word = 0;
  size_t i = 0;
  for (; i + sizeof word <= bytes.size(); i += sizeof word) {  // a copy of a known length costs one load
    std::memcpy(&word, bytes.data() + i, sizeof word);
    add_word(word);
  }
  if (i < bytes.size()) {
    word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    add_word(word);
  }
  return *this;
}

std::string Checksum::text() const { return fmt::format("the checksum {:016x}", sum_); }

std::vector<BatchScores> gather_scores(ProcessGroup* group, std::vector<BatchScores> mine) {
  if (group == nullptr) return mine;
  std::vector<std::byte> bytes;
  for (const BatchScores& scores : mine) {
    const int64_t sizes[4] = {scores.rows, scores.units, static_cast<int64_t>(scores.logits.size()),
                              scores.correct};
    put(bytes, &scores.loss, 1);
    put(bytes, sizes, 4);
    put(bytes, scores.logits.data(), scores.logits.size());
  }
  std::vector<std::vector<BatchScores>> all;
  for (const auto& part : group->all_gather(bytes).value()) all.push_back(scores_in(part));
  std::vector<BatchScores> ordered;
  for (size_t round = 0; round < all[0].size(); ++round)  // rank 0 has at least as many as any other
    for (auto& of_rank : all)
      if (round < of_rank.size()) ordered.push_back(std::move(of_rank[round]));
  return ordered;
}

}  // namespace lathe
