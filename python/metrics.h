#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "lathe/data/retrieval/pair_metrics.h"
#include "lathe/data/retrieval/ranking_metrics.h"
#include "lathe/data/retrieval/similarity.h"
#include "python/numpy_arrays.h"

namespace lathe {

/// The metrics of evaluators, as functions that give a dict.
class MetricFunctions {
 public:
  static void add_to(nanobind::module_& m) {
    m.def("similarity_metrics",
          [](const Matrix<float>& a, const Matrix<float>& b, const Array<double>& labels, const Names& by) {
            return dict_of(similarity_metrics(vectors(a), vectors(b), span(labels), named(by)));
          });
    m.def("binary_metrics",
          [](const Matrix<float>& a, const Matrix<float>& b, const Array<int32_t>& labels, const Names& by) {
            return dict_of(binary_metrics(vectors(a), vectors(b), span(labels), named(by)));
          });
    m.def("triplet_metrics", [](const Matrix<float>& a, const Matrix<float>& p, const Matrix<float>& n,
                                const Names& by, double margin) {
      return dict_of(triplet_metrics(vectors(a), vectors(p), vectors(n), named(by), margin));
    });
    m.def("retrieval_metrics", [](const Matrix<float>& queries, const Matrix<float>& documents,
                                  const Names& ids, const std::vector<std::vector<int32_t>>& relevant,
                                  const std::string& by, const std::vector<std::vector<int64_t>>& cutoffs) {
      const RetrievalCutoffs at{cutoffs.at(0), cutoffs.at(1), cutoffs.at(2), cutoffs.at(3), cutoffs.at(4)};
      const Similarity similarity = similarity_named(by);
      const auto found =
          rank_documents(similarity, vectors(queries), vectors(documents), ranks_of_ids(ids), at.most());
      return dict_of(with_name(retrieval_metrics(found, relevant, at), by));
    });
    m.def("pair_score_metrics", [](const Array<float>& scores, const Array<int32_t>& labels) {
      return dict_of(pair_score_metrics(span(scores), span(labels)));
    });
    m.def("pair_class_metrics", [](const Array<float>& logits, const Array<int32_t>& labels) {
      return dict_of(pair_class_metrics(span(logits), span(labels)));
    });
    m.def("pair_correlation_metrics", [](const Array<float>& scores, const Array<double>& labels) {
      return dict_of(pair_correlation_metrics(span(scores), span(labels)));
    });
    m.def("reranking_metrics", [](const std::vector<std::vector<int32_t>>& relevant,
                                  const std::vector<std::vector<float>>& scores, int64_t k) {
      std::vector<RankedList> lists;
      for (size_t i = 0; i < relevant.size(); ++i) lists.push_back({relevant[i], scores.at(i)});
      return dict_of(reranking_metrics(lists, k));
    });
    m.def("similarities", [](const Matrix<float>& a, const Matrix<float>& b, const std::string& by) {
      const Similarity similarity = similarity_named(by);
      std::vector<float> all;
      for (int64_t i = 0; i < vectors(a).rows(); ++i)
        for (int64_t k = 0; k < vectors(b).rows(); ++k)
          all.push_back(static_cast<float>(similarity_of(similarity, vectors(a).row(i), vectors(b).row(k))));
      return to_numpy(std::move(all), b.shape(0));
    });
  }

 private:
  using Names = std::vector<std::string>;

  static Vectors vectors(const Matrix<float>& matrix) {
    return {{matrix.data(), matrix.size()}, static_cast<int64_t>(matrix.shape(1))};
  }
  template <typename T>
  static std::span<const T> span(const Array<T>& values) {
    return {values.data(), values.size()};
  }
  static std::vector<Similarity> named(const Names& names) {
    std::vector<Similarity> all;
    for (const std::string& name : names) all.push_back(similarity_named(name));
    return all;
  }
  static nanobind::dict dict_of(const MetricValues& values) {
    nanobind::dict dict;
    for (const auto& [name, value] : values) dict[name.c_str()] = value;
    return dict;
  }
};

}  // namespace lathe
