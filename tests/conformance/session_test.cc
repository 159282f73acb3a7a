// What a session takes and gives: states of which ranks have a part, ids, types and positions of its batches.
#include "lathe/engine/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "lathe/core/error.h"
#include "tests/conformance/limited_device.h"
#include "tests/conformance/made_batch.h"

namespace lathe::session_test {
namespace {

TEST(Session, OfAPartOfAShardedStateARankTakesItsOwn) {
  Limited device(std::make_shared<FourRanks>());
  AutoModel m = model();
  Session session(device, *m.model, {.shard_states = true});
  const Shards shards = shards_of(session.parameters().layout().trainable, 4, 1);
  const auto first = static_cast<size_t>(shards.begin()), count = static_cast<size_t>(shards.count());
  const auto all = static_cast<size_t>(session.parameters().layout().trainable);
  std::vector<float> whole(all);
  for (size_t i = 0; i < all; ++i) whole[i] = static_cast<float>(i + 1);
  const std::vector<float> own(whole.begin() + shards.begin(),
                               whole.begin() + shards.begin() + shards.count());
  // Before it, over its beginning, within, over its end, after it.
  const size_t cuts[] = {0, first - 5, first + 7, first + count / 2, first + count + 3, all};
  for (size_t i = 0; i + 1 < std::size(cuts); ++i)
    session.parameters().write_state("exp_avg", cuts[i],
                                     std::span(whole).subspan(cuts[i], cuts[i + 1] - cuts[i]));
  EXPECT_EQ(session.parameters().read_state("exp_avg"), own);
  session.parameters().write_state("exp_avg_sq", whole);
  EXPECT_EQ(session.parameters().read_state("exp_avg_sq"), own);
  for (const auto& [begin, size] : {std::pair(size_t{0}, all + 1), {size_t{1}, all}, {all + 1, size_t{0}}})
    EXPECT_THROW(session.parameters().write_state("exp_avg", begin, std::vector<float>(size)), Error);
}

/// Three ranks of this process, each in a thread of its own, that only broadcast.
class Broadcasting : public FourRanks {
 public:
  struct Place {
    std::barrier<> all{3};
    std::span<std::byte> sent;
    std::atomic<size_t> largest = 0;
  };
  Broadcasting(int rank, Place& place) : rank_(rank), place_(place) {}
  int rank() const override { return rank_; }
  int size() const override { return 3; }
  Status broadcast(std::span<std::byte> bytes, int root) override {
    if (rank_ == root) place_.sent = bytes, place_.largest = std::max<size_t>(place_.largest, bytes.size());
    place_.all.arrive_and_wait();
    EXPECT_EQ(bytes.size(), place_.sent.size());
    if (rank_ != root) std::ranges::copy(place_.sent, bytes.begin());
    place_.all.arrive_and_wait();
    return {};
  }

 private:
  int rank_;
  Place& place_;
};

TEST(Session, TheFirstRankReadsAnyPartOfAShardedState) {
  Broadcasting::Place place;
  std::vector<float> whole, read;
  const auto part = [&](int rank) {
    Limited device(std::make_shared<Broadcasting>(rank, place));
    AutoModel m = model();
    Session session(device, *m.model, {.shard_states = true});
    if (rank == 0) {
      whole.resize(static_cast<size_t>(session.parameters().layout().trainable));
      for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i + 1);
      read.resize(whole.size());
    }
    place.all.arrive_and_wait();
    session.parameters().write_state("exp_avg_sq", whole);
    if (rank != 0) return session.parameters().serve_states().check();
    const size_t third = whole.size() / 3, size = whole.size() / 2 - 5;  // the second part is of all ranks
    for (const size_t begin : {size_t{0}, third - 7, size + 3, whole.size() - size})
      session.parameters()
          .read_whole_state("exp_avg_sq", begin * sizeof(float),
                            std::as_writable_bytes(std::span(read).subspan(begin, size)))
          .check();
    session.parameters().end_reads().check();
  };
  {
    std::vector<std::thread> threads;  // not every libc++ has std::jthread
    for (const int rank : {1, 2}) threads.emplace_back(part, rank);
    part(0);
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(read, whole);
  EXPECT_LT(place.largest, whole.size() / 2 * sizeof(float));  // no more than was asked for
}

TEST(Session, WantsTheTokenIdsOfAllRanks) {
  Limited device(std::make_shared<FourRanks>());
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  PackedBatch batch = made_batch({4, 4}, 8, 2, 0);
  const auto found = [&] {
    try {
      session.collect(session.step(batch, {}));
    } catch (const Error& error) {
      return std::pair(std::optional(error.code()), std::string(error.what()));
    }
    return std::pair(std::optional<ErrorCode>(), std::string());
  };
  for (const size_t ids : {0, 8, 31, 33}) {
    batch.all_input_ids.assign(ids, 1);
    EXPECT_EQ(found(), std::pair(std::optional(ErrorCode::kUsage),
                                 fmt::format("a batch has {} token ids of all ranks, expected 32: "
                                             "those of 4 batches of one size",
                                             ids)));
  }
  batch.all_input_ids.assign(32, 1);
  EXPECT_EQ(found().second, "nobody is there");
  batch.all_input_ids.back() = 40;
  EXPECT_EQ(found().first, ErrorCode::kInvalidData);
}

/// Rows outside of a table would be read from somewhere else.
TEST(Session, RefusesWhatTheModelHasNoRowFor) {
  const auto device = open_device("cpu", {1});
  AutoModel m = model();
  Session session(*device, *m.model, {});
  initialize(session.parameters(), m, 1);
  using Ids = std::vector<int32_t> PackedBatch::*;
  for (const auto& [ids, what, limit] : {std::tuple{Ids(&PackedBatch::input_ids), "token id", 40},
                                         {Ids(&PackedBatch::token_type_ids), "token type", 2},
                                         {Ids(&PackedBatch::position_ids), "position", 32}})
    for (const int32_t id : {limit, -1}) {
      PackedBatch batch = made_batch({4, 3}, 8, 2, 0);
      (batch.*ids)[5] = id;
      try {
        session.step(batch, {});
        ADD_FAILURE() << what << " " << id << ": no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
        const std::string wanted = fmt::format("{} {} lies outside of the model's {};", what, id, limit);
        EXPECT_TRUE(std::string(error.what()).starts_with(wanted)) << error.what();
      }
    }
}

/// A tokenizer of pairs may go with it.
TEST(Session, OfAModelWithOneTokenTypeReadsThatForAllTokens) {
  const auto device = open_device("cpu", {1});
  AutoModel m = model("bert", 1);
  Session session(*device, *m.model, {});
  initialize(session.parameters(), m, 1);
  PackedBatch batch = made_batch({4, 3}, 8, 2, 0);
  std::vector<float> wanted, logits;
  session.evaluate(batch, wanted);
  std::fill(batch.token_type_ids.begin() + 2, batch.token_type_ids.end(), 1);
  session.evaluate(batch, logits);
  EXPECT_EQ(logits, wanted);
}

/// RoBERTa's positions count tokens that are no padding, also within a text, starting after the padding's
/// own.
TEST(Session, GivesPaddingWithinATextNoPositionOfRoberta) {
  const auto device = open_device("cpu", {1});
  AutoModel m = model("roberta");
  Session session(*device, *m.model, {});
  initialize(session.parameters(), m, 1);
  const auto padding = static_cast<int32_t>(m.config.pad_token_id);
  PackedBatch batch = made_batch({3, 2}, 8, 2, 0);
  batch.input_ids = {5, padding, 7, 8, 9, 0, 0, 0};
  const auto& all = m.model->parameters();
  const auto table = std::find_if(all.begin(), all.end(), [](const nn::Parameter& p) {
    return p.name.find("position_embeddings") != std::string::npos;
  });
  ASSERT_NE(table, all.end());
  const int index = static_cast<int>(table - all.begin());
  std::vector<float> rows = session.parameters().read(index), before, after;
  session.evaluate(batch, before);
  const auto changes = [&](int32_t row) {
    std::vector<float> other = rows;
    std::fill_n(other.begin() + row * 32, 32, 0.5f);
    other[static_cast<size_t>(row) * 32] = -0.5f;  // LayerNorm does not see what all columns have
    session.parameters().write(index, other);
    session.evaluate(batch, after);
    return after != before;
  };
  for (const int32_t read : {0, 1, 2}) EXPECT_TRUE(changes(padding + read)) << read;
  EXPECT_FALSE(changes(padding + 3));  // three tokens; one of them is padding
}

}  // namespace
}  // namespace lathe::session_test
