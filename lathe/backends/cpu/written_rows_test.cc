#include "lathe/backends/cpu/written_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/backends/cpu/rows_testing.h"
#include "lathe/core/host_memory.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/rows.h"
#include "lathe/program/backend.h"
#include "lathe/program/memory_plan.h"

namespace lathe::cpu {
namespace {

using namespace testing;

TEST(WrittenRows, CutARangeWhereRowsBegin) {
  const WrittenRows table{10, 4, {1, 0, 1}};
  EXPECT_EQ(table.end(), 22);
  using Part = std::tuple<int64_t, int64_t, int64_t>;
  const auto parts = [&](int64_t from, int64_t to) {
    std::vector<Part> all;
    table.for_parts(from, to, [&](int64_t a, int64_t b, int64_t row) { all.emplace_back(a, b, row); });
    return all;
  };
  EXPECT_EQ(parts(0, 30),
            (std::vector<Part>{{0, 10, -1}, {10, 14, 0}, {14, 18, 1}, {18, 22, 2}, {22, 30, -1}}));
  EXPECT_EQ(parts(12, 19), (std::vector<Part>{{12, 14, 0}, {14, 18, 1}, {18, 19, 2}}));
  EXPECT_EQ(parts(3, 7), (std::vector<Part>{{3, 7, -1}}));
  EXPECT_EQ(parts(22, 23), (std::vector<Part>{{22, 23, -1}}));
  EXPECT_TRUE(parts(5, 5).empty());
}

TEST(ScatterAddRows, MayLeaveOutRowsThatHaveNoId) {
  constexpr int64_t kRows = 1500, kCols = 40, kN = 200;
  Draw draw;
  const Tensor dy(DType::f32, kN * kCols, draw.in(1));
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kN; ++i) ids.push_back(draw.below(300));
  const int64_t padding = ids[0];
  for (Isa isa : available_isas())
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      const Rows rows(pool, isa);
      Tensor whole(DType::f32, kRows * kCols), some(DType::f32, kRows * kCols);
      Workspace workspace(Rows::scatter_add_rows_workspace_bytes({kN, kCols}, kRows));
      rows.scatter_add_rows(DType::f32, DType::f32, {kN, kCols}, dy.data(), ids.data(), kRows, padding,
                            whole.data(), workspace.data());
      WrittenRows table{0, kCols, std::vector<uint8_t>(kRows, 7)};
      rows.scatter_add_rows(DType::f32, DType::f32, {kN, kCols}, dy.data(), ids.data(), kRows, padding,
                            some.data(), workspace.data(), &table);
      for (int64_t v = 0; v < kRows; ++v) {
        const bool has_id = v != padding && std::find(ids.begin(), ids.end(), v) != ids.end();
        ASSERT_EQ(table.is_written(v), has_id) << v;
        for (int64_t i = v * kCols; i < (v + 1) * kCols; ++i)
          ASSERT_TRUE(has_id ? some[i] == whole[i] : std::isnan(some[i])) << "nothing is written into others";
      }
      Workspace sums(Rows::sum_of_squares_workspace_bytes(kRows * kCols));
      const double want = rows.sum_of_squares(kRows * kCols, DType::f32, whole.data(), sums.data());
      const double got = rows.sum_of_squares(kRows * kCols, DType::f32, some.data(), sums.data(), &table);
      EXPECT_NEAR(got, want, want * 1e-14) << "which is NaN if what was not written is read";
    }
}

// Gradients before, in, and after a table; those of some parameters may be bf16 and apart.
constexpr int64_t kBefore = 40, kRows = 1100, kCols = 384, kBehind = 50, kRounded = 64, kTokens = 30;
constexpr int64_t kExact = kBefore + kRows * kCols + kBehind, kAll = kExact + kRounded;

struct Update {
  int64_t first = 0;        ///< of the rounded ones
  double weight_decay = 0;  ///< of the first half of the parameters
  bool host_reads = false;  ///< the gradients, so that all of them are written
  int64_t rows = kRows;

  int64_t all() const { return kAll + (rows - kRows) * kCols; }

  std::unique_ptr<Program> program() const {
    auto p = std::make_unique<Program>();
    const auto flat = [](int64_t n, DType t = DType::f32) { return Type{t, {n}}; };
    const Value table =
        p->emit(op::scatter_add_rows,
                {p->input("dy", {DType::f32, {kTokens, kCols}}), p->input("ids", flat(kTokens, DType::i32))},
                {{"rows", rows}})[0];
    const Value g =
        p->emit(op::concat, {p->input("before", flat(kBefore)), table, p->input("behind", flat(kBehind))})[0];
    const Value rounded = p->input("rounded", flat(kRounded, DType::bf16)), loss = p->input("loss", flat(1));
    const Value hyper = p->input("hyper", flat(kHyperCount));
    const Value norm = p->emit(op::grad_norm, {g, hyper, rounded})[0];
    p->emit(op::adamw,
            {p->state("p", flat(all())), g, p->state("m", flat(all())), p->state("v", flat(all())), norm,
             loss, hyper, rounded},
            {{"first", first}, {"weight_decay", weight_decay}, {"decayed", all() / 2}});
    p->output("norm", norm);
    if (host_reads) p->output("gradients", g, true);
    return p;
  }
};

/// An update on a machine of its own.
class Machine {
 public:
  Machine(const Update& update, int threads)
      : update_(update), backend_(make_cpu_backend(threads)), program_(update.program()) {
    for (const char* name : {"p", "m", "v"})
      states_[name] = backend_->allocate(static_cast<size_t>(update.all()) * sizeof(float)).value();
  }
  /// fresh: else NaN lies in the arena.
  void compile(bool fresh = false) {
    Selection selection;
    for (const Node& node : program_->nodes())
      selection.push_back(backend_->implementations(*node.op).front());
    const MemoryPlan plan = plan_memory(*program_, selection, 64);
    const Buffer arena = backend_->allocate(plan.arena_bytes).value();
    if (!fresh) std::memset(arena.data, 0xff, arena.bytes);
    executable_ = backend_->compile(*program_, selection, plan, {states_, arena}).value();
  }
  void write(const std::string& state, const std::vector<float>& values) {
    backend_->copy_in(states_.at(state), 0, std::as_bytes(std::span(values))).check();
  }
  /// p, m and v one after another.
  std::vector<float> read() const {
    std::vector<float> all(3 * kAll);
    size_t i = 0;
    for (const char* name : {"p", "m", "v"}) {
      const std::span part = std::span(all).subspan(i++ * kAll, kAll);
      backend_->copy_out(std::as_writable_bytes(part), states_.at(name), 0).check();
    }
    return all;
  }
  float run(uint32_t seed) {
    Draw draw(seed);
    const auto drawn = [&](int64_t n) {
      std::vector<float> x(static_cast<size_t>(n));
      for (float& v : x) v = static_cast<float>(draw.uniform(-1, 1));
      return x;
    };
    const std::vector<float> dy = drawn(kTokens * kCols), before = drawn(kBefore), behind = drawn(kBehind);
    std::vector<int32_t> ids(kTokens);
    for (int32_t& id : ids) id = draw.below(static_cast<int32_t>(update_.rows));
    std::vector<bf16> rounded;
    for (const float x : drawn(kRounded)) rounded.push_back(to_bf16(x));
    const std::vector<float> loss{1}, hyper{1e-2f, 0.1f, 0.001f, 0.f, 1.f};  // nothing is clipped
    const auto bytes = [](const auto& x) { return std::as_bytes(std::span(x)); };
    Event event;
    executable_
        ->run({{bytes(dy), bytes(ids), bytes(before), bytes(behind), bytes(rounded), bytes(loss),
                bytes(hyper)}},
              &event)
        .check();
    float norm = 0;
    executable_->read(event, 0, std::as_writable_bytes(std::span(&norm, 1))).check();
    return norm;
  }

 private:
  Update update_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Program> program_;
  std::map<std::string, Buffer> states_;
  std::unique_ptr<Executable> executable_;
};

// Steps with other tokens each, moments that the host writes in between, and another executable that goes on.
TEST(WrittenRows, GiveTheUpdatesThatAllRowsGive) {
  for (const double weight_decay : {0.0, 0.1})
    for (const int64_t first : {int64_t{0}, kBefore, kBefore + kRows * kCols, kExact}) {
      SCOPED_TRACE(fmt::format("decay {}, rounded from {}", weight_decay, first));
      Machine some({first, weight_decay}, 3), all({first, weight_decay, true}, 2);
      for (Machine* machine : {&some, &all}) {
        machine->write("p", std::vector<float>(kAll, 0.5f));
        machine->compile();
      }
      for (uint32_t step = 1; step <= 7; ++step) {
        const float norm = some.run(step), wanted = all.run(step);
        EXPECT_NEAR(norm, wanted, wanted * 0x1p-23f);
        ASSERT_TRUE(some.read() == all.read()) << "step " << step;
        if (step == 5) some.compile();
        if (step != 3 && step != 4) continue;
        std::vector<float> moments(kAll);
        for (size_t i = 0; i < moments.size(); i += 1000) moments[i] = 0.01f;
        for (Machine* machine : {&some, &all}) machine->write(step == 3 ? "m" : "v", moments);
      }
    }
}

// Moments and gradients of a large table take memory only for the rows that have a gradient, not for the big
// pages that hold these rows.
TEST(WrittenRows, OfALargeTableTakeLittleMemory) {
  Machine machine({.rows = 1 << 18}, 2);
  machine.compile(true);
  const auto before = resident_bytes();
  if (!before) GTEST_SKIP() << "the system does not tell how much memory this process has";
  machine.run(1);
  // Thirty rows of p, on big pages where there are any, and of the other three on two pages of 64 KB at most.
  EXPECT_LT(*resident_bytes() - *before, kTokens * ((2 << 20) + 3 * 2 * (64 << 10)) + (8 << 20));
}

TEST(WrittenRows, AreOfATableThatNormAndOptimizerAloneRead) {
  const TableGradient found = find_table_gradient(*Update{}.program());
  ASSERT_GE(found.scatter, 0);
  EXPECT_EQ(found.begin, kBefore);
  EXPECT_EQ(found.readers.size(), 2u);
  EXPECT_LT(find_table_gradient(*Update{.host_reads = true}.program()).scatter, 0);

  const auto with_reader = [](int64_t rows, auto read) {
    Program p;
    const Value table =
        p.emit(op::scatter_add_rows, {p.input("dy", {DType::f32, {3, 8}}), p.input("ids", {DType::i32, {3}})},
               {{"rows", rows}})[0];
    const Value g = p.emit(op::concat, {table, p.input("more", {DType::f32, {5}})})[0];
    p.output("norm", p.emit(op::grad_norm, {g, p.input("hyper", {DType::f32, {kHyperCount}}), {}})[0]);
    read(p, table, g);
    return find_table_gradient(p).scatter;
  };
  const auto nothing = [](Program&, Value, Value) {};
  EXPECT_GE(with_reader(Rows::kSmallTable, nothing), 0);
  EXPECT_LT(with_reader(Rows::kSmallTable - 1, nothing), 0) << "small";
  EXPECT_LT(
      with_reader(5000, [](Program& p, Value, Value g) { p.output("sum", p.emit(op::all_reduce, {g})[0]); }),
      0);
  EXPECT_LT(with_reader(5000, [](Program&, Value table, Value) { (void)add(table, table); }), 0);
  EXPECT_LT(with_reader(5000, [](Program& p, Value table, Value) { p.output("table", table); }), 0);
}

}  // namespace
}  // namespace lathe::cpu
