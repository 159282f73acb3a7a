#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/data/words/seqeval.h"

namespace lathe {

/// The generator of tools/make_seqeval_golden.py.
class MadeUp {
 public:
  explicit MadeUp(uint64_t seed) : state_(seed) {}
  size_t below(size_t count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 40) % count;
  }

 private:
  uint64_t state_;
};

/// One tag in six becomes that of some other word, as with_mistakes there.
template <typename Tag>
std::vector<std::vector<Tag>> with_mistakes(std::vector<std::vector<Tag>> sentences) {
  MadeUp random(7);
  std::vector<Tag> flat;
  for (const auto& sentence : sentences) flat.insert(flat.end(), sentence.begin(), sentence.end());
  for (auto& sentence : sentences)
    for (Tag& tag : sentence)
      if (random.below(6) == 0) tag = flat[random.below(flat.size())];
  return sentences;
}

/// Metrics as a golden lists them.
inline MetricValues metrics_of(const nlohmann::json& list) {
  MetricValues out;
  for (const auto& entry : list) out.emplace_back(entry[0].get<std::string>(), entry[1].get<double>());
  return out;
}

}  // namespace lathe
