// Vectors of texts, trained by how alike they should be.
#include "lathe/tasks/text_similarity.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "lathe/core/error.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/similarity.h"
#include "lathe/tasks/column_inputs.h"

namespace lathe {
namespace {

using LossKind = SimilarityLoss::Kind;
using Distance = SimilarityLoss::Distance;

std::vector<Task::Target> targets_of(LossKind kind) {
  if (kind == LossKind::kCoSent) return {{.name = "ranks", .words = "scores"}};
  if (kind == LossKind::kCosineSimilarity) return {{.name = "labels", .floats = true, .words = "scores"}};
  if (kind == LossKind::kContrastive) return {{.name = "labels", .floats = true}};
  return {{.name = kTextsOfSample, .words = "texts"}};
}

/// The loss of one width.
class Loss {
 public:
  Loss(const SimilarityLoss& how, nn::Inputs& inputs, const Task::LossOptions& options)
      : how_(how), inputs_(inputs), options_(options) {}

  /// x: [B, width], the rows of all texts.
  Value of(Value x) const {
    switch (how_.kind) {
      case LossKind::kMultipleNegatives:
        return of_negatives(l2_normalize(x));
      case LossKind::kCosineSimilarity:
        return one(op::mse, {cosines(x), labels()});
      case LossKind::kCoSent:
        return one(op::cosent, {cosines(x), inputs_.sample("ranks")}, {{"factor", how_.scale}});
      case LossKind::kTriplet:
        return one(op::pair_loss, {distances(x, 1, 0), distances(x, 2, 0)},
                   {{"kind", std::string("triplet")}, {"margin", how_.margin}});
      case LossKind::kContrastive:
        break;
    }
    constexpr double kPairwiseEps = 1e-6;  // torch.nn.functional.pairwise_distance's
    const Value mean = one(op::pair_loss, {distances(x, 1, kPairwiseEps), labels()},
                           {{"kind", std::string("contrastive")}, {"margin", how_.margin}});
    return how_.mean ? mean : scale(mean, static_cast<double>(inputs_.samples()));
  }

 private:
  static Value one(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs = {}) {
    return in[0].program->emit(op, in, attrs)[0];
  }
  Value labels() const { return inputs_.sample("labels", DType::f32); }
  Value column(Value x, int number) const {
    return gather_rows(x, inputs_.sample(kColumn + std::to_string(number)));
  }
  Value cosines(Value x) const {
    const Value unit = l2_normalize(x);
    return one(op::row_scores, {column(unit, 0), column(unit, 1)});
  }
  /// From column 0 to that column.
  Value distances(Value x, int to, double shift) const {
    const bool cosine = how_.distance == Distance::kCosine;
    if (cosine) x = l2_normalize(x);
    const char* kind = cosine                                  ? "one_minus_dot"
                       : how_.distance == Distance::kEuclidean ? "euclidean"
                                                               : "manhattan";
    return one(op::row_scores, {column(x, 0), column(x, to)},
               {{"kind", std::string(kind)}, {"shift", cosine ? 0 : shift}});
  }
  Value of_all_ranks(Value x) const {
    return one(op::gather_ranks, {x}, {{"ranks", int64_t{options_.ranks}}, {"rank", int64_t{options_.rank}}});
  }
  Value cross_entropy(Value scores, const char* right) const {
    return one(op::cross_entropy, {scores, inputs_.sample(right)});
  }

  /// Candidates are all rows but those of column 0, which have a score of −∞.
  Value of_negatives(Value unit) const {
    const bool gathers = how_.gathers && options_.ranks > 1;
    const Value anchors = column(unit, 0);
    const Value bias = inputs_.rows(kAnchorBias, gathers ? options_.ranks : 1, DType::f32);
    const Value scores = linear(scale(anchors, how_.scale), gathers ? of_all_ranks(unit) : unit, bias);
    const Value forth = cross_entropy(scores, gathers ? kPositiveRowsOfAll : kPositiveRows);
    if (!how_.symmetric) return forth;
    const Value back =
        linear(scale(column(unit, 1), how_.scale), gathers ? of_all_ranks(anchors) : anchors, {});
    return scale(add(forth, cross_entropy(back, gathers ? kSampleNumbersOfAll : kSampleNumbers)), 0.5);
  }

  const SimilarityLoss& how_;
  nn::Inputs& inputs_;
  const Task::LossOptions& options_;
};

class TextSimilarity : public Task {
 public:
  explicit TextSimilarity(const SimilarityLoss& loss)
      : Task({HeadKind::kSentenceVector, 0}, targets_of(loss.kind)), loss_(loss) {}
  bool compares_rows() const override { return true; }
  void check_values(const TokenizedDataset& data, const char* what) const override {
    const int64_t least = loss_.kind == LossKind::kTriplet ? 3 : 2;
    const bool more = loss_.kind == LossKind::kMultipleNegatives;
    for (int64_t i = 0; i < data.size(); ++i) {
      const int64_t found = data.rows_of(i);
      if (more ? found < least : found != least)
        fail(ErrorCode::kInvalidData, "{}: sample {} has {} texts, expected {}{} for {}", what, i, found,
             least, more ? " or more" : "", name_of(loss_.kind));
    }
  }

  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions& options) const override {
    const Loss loss(loss_, inputs, options);
    if (loss_.widths.empty()) return {loss.of(out.scores), {}};
    Value sum;
    for (const auto& [width, weight] : loss_.widths) {
      const Value narrow =
          l2_normalize(out.scores.program->emit(op::first_columns, {out.scores}, {{"cols", width}})[0]);
      const Value part = scale(loss.of(narrow), weight);
      sum = sum ? add(sum, part) : part;
    }
    return {sum, {}};
  }
  bool takes_item_count() const override { return false; }
  int64_t cached_samples() const override { return loss_.cached; }
  bool scores_texts() const override { return true; }

  std::string agreement_text(const Predictions& a, const Predictions& b) const override {
    double sum = 0;
    const auto width = static_cast<size_t>(a.columns);
    const size_t rows = width == 0 ? 0 : a.logits.size() / width;
    for (size_t row = 0; row < rows; ++row) {
      double dot = 0, aa = 0, bb = 0;
      for (size_t i = row * width; i < (row + 1) * width; ++i) {
        dot += static_cast<double>(a.logits[i]) * b.logits[i];
        aa += static_cast<double>(a.logits[i]) * a.logits[i];
        bb += static_cast<double>(b.logits[i]) * b.logits[i];
      }
      sum += aa == 0 || bb == 0 ? 0 : dot / std::sqrt(aa * bb);
    }
    return fmt::format("vectors have a cosine of {:.5f} on average",
                       rows == 0 ? 1 : sum / static_cast<double>(rows));
  }

 private:
  SimilarityLoss loss_;
};

}  // namespace

const char* name_of(LossKind kind) {
  constexpr const char* kNames[] = {"MultipleNegativesRankingLoss", "CosineSimilarityLoss", "CoSENTLoss",
                                    "TripletLoss", "ContrastiveLoss"};
  return kNames[static_cast<size_t>(kind)];
}

TaskPtr text_similarity(const SimilarityLoss& loss) { return std::make_shared<TextSimilarity>(loss); }

}  // namespace lathe
