#pragma once
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/data/metrics.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/data/tokenized.h"
#include "lathe/report/findings.h"
#include "lathe/tasks/predictions.h"
#include "python/numpy_arrays.h"

namespace lathe {

/// Rows of tokens, and what an evaluation of them says by itself.
struct Dataset {
  Dataset() = default;
  /// Rows, flat; labels: int32 [rows], or float32 [rows · columns].
  Dataset(const Array<int32_t>& ids, const Array<uint8_t>& type_ids, const Array<int64_t>& begins,
          const std::optional<Array<int32_t>>& classes, const std::optional<Array<float>>& targets,
          int columns) {
    if (type_ids.size() != ids.size() || begins.size() == 0 ||
        begins.data()[begins.size() - 1] != static_cast<int64_t>(ids.size()))
      fail(ErrorCode::kInvalidData, "rows: found {} type ids and {} ids, expected one for each",
           type_ids.size(), ids.size());
    data.input_ids = values_of(ids);
    data.type_ids = values_of(type_ids);
    data.begins = values_of(begins);
    if (classes) data.tensors.ints("labels") = values_of(*classes);
    if (targets && targets->size() > 0) data.tensors.floats("labels", columns) = values_of(*targets);
  }

  TokenizedDataset data;
  /// Metrics of its predictions, and what the report shows of them; empty: compute_metrics says it, and the
  /// labels do.
  std::function<MetricValues(const Predictions&)> metrics;
  std::function<Findings(const Predictions&)> findings;
};

using Encoded = std::tuple<Numpy<int32_t>, Numpy<uint8_t>, Numpy<int64_t>>;

/// A strategy by its name in transformers.
inline Truncation truncation_of(const std::string& name) {
  if (name == "longest_first") return Truncation::kLongestFirst;
  if (name == "only_first") return Truncation::kOnlyFirst;
  if (name == "only_second") return Truncation::kOnlySecond;
  return Truncation::kNone;
}

/// ids, type ids and the beginnings of rows, of texts or pairs.
inline Encoded encode(const Tokenizer& tokenizer, const std::vector<std::string>& first,
                      const std::vector<std::string>& second, int max_length, const std::string& truncation) {
  TokenizedDataset tokens;
  {
    const nanobind::gil_scoped_release released;
    const EncodeOptions options{.max_length = max_length, .truncation = truncation_of(truncation)};
    ThreadPool pool;
    tokens.append(
        parallel_parts<TokenizedDataset>(pool, static_cast<long>(first.size()), [&](long begin, long end) {
          TokenizedDataset part;
          for (long i = begin; i < end; ++i)
            part.append(second.empty() ? tokenizer.encode(first[i], options)
                                       : tokenizer.encode_pair(first[i], second[i], options),
                        tokenizer);
          return part;
        }));
  }
  return {to_numpy(std::move(tokens.input_ids)), to_numpy(std::move(tokens.type_ids)),
          to_numpy(std::move(tokens.begins))};
}

}  // namespace lathe
