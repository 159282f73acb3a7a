#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/core/source_folder_testing.h"
#include "lathe/data/metrics.h"
#include "lathe/data/retrieval/similarity.h"

namespace lathe {

/// Stored results of sentence-transformers' evaluators; tools/make_embedding_metrics.py writes them.
inline nlohmann::json stored_metrics(const std::string& kind) {
  std::ifstream in(source_path("tests/golden/embedding_metrics/") + kind + ".json");
  return nlohmann::json::parse(in);
}

/// The same keys in the same order, and values that differ by 1e-9 at most; null in the file is NaN.
inline void expect_metrics(const MetricValues& found, const nlohmann::json& wanted,
                           const std::string& place) {
  ASSERT_EQ(found.size(), wanted.size()) << place;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string key = wanted[i][0];
    EXPECT_EQ(found[i].first, key) << place;
    if (wanted[i][1].is_null()) {
      EXPECT_TRUE(std::isnan(found[i].second)) << place << " " << key;
    } else {
      EXPECT_NEAR(found[i].second, wanted[i][1].get<double>(), 1e-9) << place << " " << key;
    }
  }
}

inline std::vector<Similarity> similarities_of(const nlohmann::json& names) {
  std::vector<Similarity> out;
  for (const auto& name : names) out.push_back(similarity_named(name.get<std::string>()));
  return out;
}

}  // namespace lathe
