#include "lathe/engine/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

namespace lathe {
namespace {

/// Three ranks that make one call.
class Ranks : public ProcessGroup {
 public:
  /// What call(group, rank) gives on `rank`.
  template <typename Call>
  auto give(int rank, const Call& call) {
    told_.clear();
    for (rank_ = 0; rank_ < size(); ++rank_) EXPECT_THROW(call(this, rank_), Error) << "nobody else has told";
    rank_ = rank;
    return call(this, rank);
  }
  int rank() const override { return rank_; }
  int size() const override { return 3; }
  int local_rank() const override { return rank_; }
  Status sum(std::span<float>, DType) override { return {}; }
  Status broadcast(std::span<std::byte>, int) override { return {}; }
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) override {
    if (std::ssize(told_) == size()) return told_;
    told_.emplace_back(mine.begin(), mine.end());
    return Status(ErrorCode::kIo, "the others have told nothing yet");
  }
  Status gather_parts(std::span<float>, std::span<const int64_t>) override { return {}; }
  Status barrier() override { return {}; }
  std::optional<int> gone() const override { return {}; }

 private:
  int rank_ = 0;
  std::vector<std::vector<std::byte>> told_;
};

TEST(Ranks, HaveOneSumOneLeastAndTheTextOfTheFirst) {
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.give(rank,
                         [](auto* g, int r) {
                           return sum_over(g, {r + 1.0, r * 10.0});
                         }),
              (std::vector<double>{6, 30}));
    EXPECT_EQ(ranks.give(rank, [](auto* g, int r) { return least_over(g, std::array{7, 3, 5}[r]); }), 3);
    EXPECT_EQ(ranks.give(rank, [](auto* g, int r) { return text_of_main(g, std::string(1, "abc"[r])); }),
              "a");
  }
}

TEST(Ranks, DoWhatOneOfThemMayFailAtAllOrNone) {
  Ranks ranks;
  const auto outcome = [&](int rank, const std::array<const char*, 3>& errors) -> std::string {
    try {
      ranks.give(rank, [&](auto* g, int r) {
        all_or_none(g, [&] {
          if (errors[r][0] != 0) fail(ErrorCode::kIo, "{}", errors[r]);
        });
      });
    } catch (const Error& error) {
      return error.what();
    }
    return "done";
  };
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcome(rank, {"", "", ""}), "done");
  EXPECT_EQ(outcome(0, {"", "b", "c"}), "rank 1: b");
  EXPECT_EQ(outcome(1, {"", "b", "c"}), "b");
  EXPECT_EQ(outcome(2, {"", "b", ""}), "rank 1: b");
}

TEST(Ranks, ThatAreNotAlikeSaySoOnEachOfThem) {
  Ranks ranks;
  using Facts = std::array<nlohmann::json, 3>;
  const auto error = [&](const Facts& facts, int rank) -> std::string {
    try {
      ranks.give(rank, [&](auto* g, int r) {
        check_alike(g, facts[static_cast<size_t>(r)]);
        return 0;
      });
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return std::string(e.what()).substr(0, std::string(e.what()).find(": all"));
    }
    return "";
  };
  const nlohmann::json same = {{"--seed", 7}, {"labels", {"a", "b"}}};
  nlohmann::json other = same, less = same;
  other["--seed"] = 8;
  less.erase("--seed");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(error({same, same, same}, rank), "");
    EXPECT_EQ(error({same, other, same}, rank), "--seed: rank 0 has 7, rank 1 has 8");
    EXPECT_EQ(error({same, same, other}, rank), "--seed: rank 0 has 7, rank 2 has 8");
    EXPECT_EQ(error({same, same, less}, rank), "--seed: rank 0 has 7, rank 2 has none");
    EXPECT_EQ(error({less, same, same}, rank), "--seed: rank 0 has none, rank 1 has 7");
  }
}

TEST(Ranks, HaveTheScoresOfAllBatchesInTheirOrder) {
  Ranks ranks;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<BatchScores> all = ranks.give(rank, [](auto* g, int r) {
      std::vector<BatchScores> mine;  // of five batches
      for (int batch = r; batch < 5; batch += 3) {
        const float score = static_cast<float>(batch);
        mine.push_back({score / 4, batch, 2 * batch, 3 * batch, {score, score / 2}});
      }
      return gather_scores(g, mine);
    });
    ASSERT_EQ(all.size(), 5u);
    for (int batch = 0; batch < 5; ++batch) {
      const BatchScores& scores = all[static_cast<size_t>(batch)];
      const float score = static_cast<float>(batch);
      EXPECT_EQ(scores.logits, (std::vector<float>{score, score / 2}));
      EXPECT_EQ(scores.loss, score / 4);
      EXPECT_EQ(scores.rows, batch);
      EXPECT_EQ(scores.units, 2 * batch);
      EXPECT_EQ(scores.correct, 3 * batch);
    }
  }
}

/// Values of each kind: no task has all of them.
TokenizedDataset two_samples() {
  TokenizedDataset data;
  data.input_ids = {1, 2, 3, 4, 5};
  data.type_ids = {0, 0, 1, 0, 1};
  data.begins = {0, 3, 5};
  data.tensors.ints("labels") = {0, 1};
  data.tensors.floats("weights") = {0.5f, -0.5f};
  data.tensors.ints("start_positions") = {1, 0};
  data.tensors.ints("end_positions") = {2, 1};
  return data;
}

std::string summary_of(const TokenizedDataset& data) { return summary({&data, 1}); }

TEST(Summary, ChangesWithAllThatASampleHas) {
  const std::string before = summary_of(two_samples());
  EXPECT_TRUE(before.starts_with("2 samples with the checksum ")) << before;
  EXPECT_EQ(summary_of(two_samples()), before);
  const std::vector<std::function<void(TokenizedDataset&)>> changes = {
      [](TokenizedDataset& data) { std::swap(data.input_ids[0], data.input_ids[4]); },
      [](TokenizedDataset& data) { data.type_ids[4] = 0; },
      [](TokenizedDataset& data) { data.begins[1] = 2; },
      [](TokenizedDataset& data) { data.tensors.ints("labels")[1] = 0; },
      [](TokenizedDataset& data) {
        std::vector<float>& weights = data.tensors.floats("weights");
        std::swap(weights[0], weights[1]);  // two signs
      },
      [](TokenizedDataset& data) { data.tensors.ints("start_positions")[0] = 0; },
      [](TokenizedDataset& data) { data.tensors.ints("end_positions")[0] = 1; },
      [](TokenizedDataset& data) { data.tensors.ints("labels").clear(); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    TokenizedDataset data = two_samples();
    changes[i](data);
    EXPECT_NE(summary_of(data), before) << i;
  }
}

/// The order of a checkpoint's lists: ids, types, begins, labels, float labels, starts, ends.
TEST(Summary, IsTheSameInEveryVersion) {
  TokenizedDataset data = two_samples();
  data.tensors.erase("weights");
  const auto expected = [&](const std::vector<int32_t>& labels, const std::vector<float>& values) {
    return Checksum()
        .add(data.input_ids)
        .add(data.type_ids)
        .add(data.begins)
        .add(labels)
        .add(values)
        .add(std::vector<int32_t>{1, 0})
        .add(std::vector<int32_t>{2, 1})
        .text();
  };
  EXPECT_EQ(summary_of(data), "2 samples with " + expected({0, 1}, {}));
  data.tensors.floats("labels") = {0.5f, -0.5f};
  EXPECT_EQ(summary_of(data), "2 samples with " + expected({}, {0.5f, -0.5f}));
}

/// Checkpoints keep some: a run that goes on compares them with its own.
TEST(Checksum, IsTheSameInEveryVersion) {
  EXPECT_EQ(Checksum().add(std::string("abcdefg")).text(), "the checksum 723e2cd2eb90c6e0");
}

TEST(Checksum, KnowsWhereOneValueEnds) {
  EXPECT_NE(Checksum().add(std::string("ab")).add(std::string("c")).text(),
            Checksum().add(std::string("a")).add(std::string("bc")).text());
}

TEST(CommonFlags, LeavesOutPathsAndWhatIsAProcesssOwn) {
  EXPECT_EQ(common_flags({{"train_file", "a.csv"}, {"threads", 2}, {"seed", 7}, {"bf16", true}}),
            nlohmann::json({{"--seed", 7}, {"--bf16", true}}));
}

}  // namespace
}  // namespace lathe
