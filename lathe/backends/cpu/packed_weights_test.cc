#include "lathe/backends/cpu/packed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/core/float16.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/program/memory_plan.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTokens = 37, kIn = 70, kOut = 45, kBefore = 13, kAfter = 29, kPart = 20;
constexpr int64_t kParameters = kBefore + kOut * kIn + kAfter;

float drawn(int64_t i, uint32_t salt) {
  const uint32_t x = (static_cast<uint32_t>(i) + salt) * 2654435761u;
  return static_cast<float>(x >> 8) / 16777216.f - 0.5f;
}
std::vector<float> draw(int64_t n, uint32_t salt) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = drawn(i, salt);
  return x;
}
std::vector<uint16_t> draw_bf16(int64_t n, uint32_t salt) {
  std::vector<uint16_t> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto value = to_bf16(drawn(i, salt));
    std::memcpy(&x[static_cast<size_t>(i)], &value, 2);
  }
  return x;
}
template <typename T>
std::span<const std::byte> bytes(const std::vector<T>& x) {
  return std::as_bytes(std::span(x));
}

/// Programs over one state `parameters` that holds W somewhere in its middle.
class Machine {
 public:
  explicit Machine(Isa isa, std::shared_ptr<ProcessGroup> group = {})
      : isa_(isa), backend_(make_cpu_backend(3, std::move(group))) {
    for (const char* name : {"parameters", "exp_avg", "exp_avg_sq"})
      states_[name] = backend_->allocate(kParameters * sizeof(float)).value();
  }

  void write(const std::string& state, const std::vector<float>& values) {
    backend_->copy_in(states_.at(state), 0, bytes(values)).check();
  }
  std::vector<float> read(const std::string& state) {
    std::vector<float> values(kParameters);
    backend_->copy_out(std::as_writable_bytes(std::span(values)), states_.at(state), 0).check();
    return values;
  }

  std::unique_ptr<Executable> compile(const Program& program) {
    Selection selection;
    for (const Node& node : program.nodes()) {
      const auto list = backend_->implementations(*node.op);
      const auto it = std::find_if(list.begin(), list.end(),
                                   [&](const Impl* impl) { return impl->name == name_of(isa_); });
      selection.push_back(it == list.end() ? list.front() : *it);
    }
    const MemoryPlan plan = plan_memory(program, selection, 64);
    const Bindings bindings{states_, backend_->allocate(plan.arena_bytes).value()};
    return backend_->compile(program, selection, plan, bindings).value();
  }

  /// y = x Wᵀ and dx = dy W, bf16, and y in integers, with W from the state (read packed) or as an input
  /// (packed by the product).
  std::unique_ptr<Executable> products(bool from_state) {
    auto program = std::make_unique<Program>();
    const Value x = program->input("x", {DType::bf16, {kTokens, kIn}});
    const Value dy = program->input("dy", {DType::bf16, {kTokens, kOut}});
    const Value w =
        from_state ? slice(program->state("parameters", {DType::f32, {kParameters}}), kBefore, {kOut, kIn})
                   : program->input("w", {DType::f32, {kOut, kIn}});
    program->output("y", linear(x, w, {}));
    program->output("dx", program->emit(op::linear_bwd_input, {dy, w})[0]);
    program->output("y8", linear_int8(x, w, {}));
    programs_.push_back(std::move(program));
    return compile(*programs_.back());
  }
  /// y = x Wᵀ with some rows of W, bf16 and in integers.
  std::unique_ptr<Executable> part() {
    auto program = std::make_unique<Program>();
    const Value x = program->input("x", {DType::bf16, {kTokens, kIn}});
    const Value all = program->state("parameters", {DType::f32, {kParameters}});
    const Value w = slice(all, kBefore + 7 * kIn, {kPart, kIn});
    program->output("y", linear(x, w, {}));
    program->output("y8", linear_int8(x, w, {}));
    programs_.push_back(std::move(program));
    return compile(*programs_.back());
  }
  std::unique_ptr<Executable> optimizer(int64_t decayed) {
    auto program = std::make_unique<Program>();
    const Type flat{DType::f32, {kParameters}}, one{DType::f32, {1}};
    const Value p = program->state("parameters", flat), m = program->state("exp_avg", flat),
                v = program->state("exp_avg_sq", flat);
    const Value g = program->input("g", flat), norm = program->input("norm", one),
                loss = program->input("loss", one),
                hyper = program->input("hyper", {DType::f32, {kHyperCount}});
    program->emit(op::adamw, {p, g, m, v, norm, loss, hyper, {}},
                  {{"decayed", decayed}, {"weight_decay", 0.1}});
    programs_.push_back(std::move(program));
    return compile(*programs_.back());
  }

  /// The update of one rank's part of the parameters, and the parts of the other ranks.
  std::unique_ptr<Executable> sharded_optimizer(const Shape& counts, int64_t rank) {
    auto program = std::make_unique<Program>();
    const int64_t count = counts[static_cast<size_t>(rank)];
    const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
    const Type flat{DType::f32, {count}}, one{DType::f32, {1}};
    const Value all = program->state("parameters", {DType::f32, {kParameters}});
    const Value m = program->state("exp_avg", flat), v = program->state("exp_avg_sq", flat);
    const Value g = program->input("g", flat), norm = program->input("norm", one),
                loss = program->input("loss", one),
                hyper = program->input("hyper", {DType::f32, {kHyperCount}});
    const Value own =
        program->emit(op::adamw, {slice(all, begin, {count}), g, m, v, norm, loss, hyper, {}})[0];
    program->emit(op::all_gather, {all, own}, {{"counts", counts}, {"rank", rank}});
    programs_.push_back(std::move(program));
    return compile(*programs_.back());
  }

  static std::vector<std::vector<uint16_t>> run(Executable& e, const Slot& slot) {
    Event event;
    e.run(slot, &event).check();
    std::vector<std::vector<uint16_t>> out = {std::vector<uint16_t>(kTokens * kOut),
                                              std::vector<uint16_t>(kTokens * kIn),
                                              std::vector<uint16_t>(kTokens * kOut)};
    for (size_t i = 0; i < out.size(); ++i)
      e.read(event, i, std::as_writable_bytes(std::span(out[i]))).check();
    return out;
  }

 private:
  Isa isa_;
  std::unique_ptr<Backend> backend_;
  std::map<std::string, Buffer> states_;
  std::vector<std::unique_ptr<Program>> programs_;
};

TEST(PackedWeights, AreThoseOfTheStateAfterEveryKindOfChange) {
  const std::vector<uint16_t> x = draw_bf16(kTokens * kIn, 1), dy = draw_bf16(kTokens * kOut, 2);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    Machine machine(isa);
    const auto packed = machine.products(true), plain = machine.products(false);
    const auto check = [&](const char* when) {
      const std::vector<float> all = machine.read("parameters");
      const std::vector<float> w(all.begin() + kBefore, all.begin() + kBefore + kOut * kIn);
      EXPECT_EQ(Machine::run(*packed, {{bytes(x), bytes(dy)}}),
                Machine::run(*plain, {{bytes(x), bytes(dy), bytes(w)}}))
          << when;
    };
    check("zeros");
    for (uint32_t round : {3u, 4u}) {
      machine.write("parameters", draw(kParameters, round));
      check("written by the host");
    }
    const std::vector<float> g = draw(kParameters, 5), one = {1}, hyper = {0.3f, 0.1f, 0.001f, 0, 1};
    const std::vector<float> bad = {INFINITY};
    // Weight decay ends before W, within one of its rows, after it.
    for (int64_t decayed : {kBefore, kBefore + 33 * kIn + 7, kParameters}) {
      const auto optimizer = machine.optimizer(decayed);
      Event event;
      optimizer->run({{bytes(g), bytes(one), bytes(one), bytes(hyper)}}, &event).check();
      check("updated");
      optimizer->run({{bytes(g), bytes(bad), bytes(one), bytes(hyper)}}, &event).check();
      check("an update that was left out");
    }
  }
}

/// A rank whose group has no other ranks: what those would give is drawn at random.
class LoneRank : public ProcessGroup {
 public:
  LoneRank(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return rank_; }
  Status sum(std::span<float>, DType) override { return {}; }
  Status broadcast(std::span<std::byte>, int) override { return {}; }
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte>) override {
    return Status(ErrorCode::kUnsupported, "nobody is there");
  }
  Status gather_parts(std::span<float> values, std::span<const int64_t> counts) override {
    for (int64_t r = 0, at = 0; r < size_; at += counts[static_cast<size_t>(r++)])
      for (int64_t i = at; r != rank_ && i < at + counts[static_cast<size_t>(r)]; ++i)
        values[static_cast<size_t>(i)] = drawn(i, ++salt_);
    return {};
  }
  Status barrier() override { return {}; }
  std::optional<int> gone() const override { return {}; }

 private:
  int rank_, size_;
  uint32_t salt_ = 100;
};

TEST(PackedWeights, FollowWhatOtherRanksUpdate) {
  const std::vector<uint16_t> x = draw_bf16(kTokens * kIn, 1), dy = draw_bf16(kTokens * kOut, 2);
  const std::vector<float> one = {1}, hyper = {0.3f, 0.1f, 0.001f, 0, 1};
  // Ranges that end before W, within two of its rows, and after it; also a W that belongs to one rank as a
  // whole.
  for (const Shape& counts : {Shape{kBefore, 33 * kIn + 7, kParameters - kBefore - 33 * kIn - 7},
                              Shape{5, kParameters - 5 - 11, 11},
                              Shape{kBefore + 7 * kIn + 1, 20, kParameters - kBefore - 7 * kIn - 21}})
    for (Isa isa : available_isas())
      for (int rank = 0; rank < 3; ++rank) {
        SCOPED_TRACE(fmt::format("{} rank {} of {}", name_of(isa), rank, to_string(counts)));
        Machine machine(isa, std::make_shared<LoneRank>(rank, 3));
        const auto packed = machine.products(true), plain = machine.products(false);
        machine.write("parameters", draw(kParameters, 3));
        const auto optimizer = machine.sharded_optimizer(counts, rank);
        const std::vector<float> g = draw(counts[static_cast<size_t>(rank)], 5);
        Event event;
        // After a run that packed all copies, and after an update that no run follows.
        for (const bool runs_between : {true, false, true}) {
          if (runs_between) Machine::run(*packed, {{bytes(x), bytes(dy)}});
          optimizer->run({{bytes(g), bytes(one), bytes(one), bytes(hyper)}}, &event).check();
          if (!runs_between) continue;
          const std::vector<float> all = machine.read("parameters");
          const std::vector<float> w(all.begin() + kBefore, all.begin() + kBefore + kOut * kIn);
          EXPECT_EQ(Machine::run(*packed, {{bytes(x), bytes(dy)}}),
                    Machine::run(*plain, {{bytes(x), bytes(dy), bytes(w)}}));
        }
      }
}

// Rows of a weight that is also read by itself: each element is updated once, and both copies follow.
TEST(PackedWeights, MayShareElements) {
  const std::vector<uint16_t> x = draw_bf16(kTokens * kIn, 1), dy = draw_bf16(kTokens * kOut, 2);
  const std::vector<float> g = draw(kParameters, 5), one = {1}, hyper = {0.3f, 0.1f, 0.001f, 0, 1};
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const auto after_update = [&](bool with_part) {
      Machine machine(isa);
      const auto whole = machine.products(true);
      const auto part = with_part ? machine.part() : nullptr;
      machine.write("parameters", draw(kParameters, 3));
      const auto optimizer = machine.optimizer(kParameters);
      Event event;
      optimizer->run({{bytes(g), bytes(one), bytes(one), bytes(hyper)}}, &event).check();
      return std::pair(machine.read("parameters"), Machine::run(*whole, {{bytes(x), bytes(dy)}}));
    };
    EXPECT_EQ(after_update(true), after_update(false));
  }
}

TEST(PackedWeights, OfAProgramThatComesLaterAreThere) {
  const std::vector<uint16_t> x = draw_bf16(kTokens * kIn, 1), dy = draw_bf16(kTokens * kOut, 2);
  for (Isa isa : available_isas()) {
    const auto of_part = [&](bool later) {
      Machine machine(isa);
      machine.write("parameters", draw(kParameters, 3));
      const auto whole = machine.products(true);
      if (later) Machine::run(*whole, {{bytes(x), bytes(dy)}});
      const auto part = machine.part();
      Event event;
      part->run({{bytes(x)}}, &event).check();
      std::vector<std::vector<uint16_t>> out(2, std::vector<uint16_t>(kTokens * kPart));
      for (size_t i = 0; i < out.size(); ++i)
        part->read(event, i, std::as_writable_bytes(std::span(out[i]))).check();
      return out;
    };
    EXPECT_EQ(of_part(true), of_part(false)) << name_of(isa);
  }
}

TEST(PackedWeights, OfAWeightInBf16AreOneCopyForTheForwardProduct) {
  const std::vector<uint16_t> x = draw_bf16(kTokens * kIn, 1), dy = draw_bf16(kTokens * kOut, 2);
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const auto backend = make_cpu_backend(3, {});
    const auto products = [&](Program& program, bool from_state) {
      const Type type{DType::bf16, {kOut, kIn}};
      const Value a = program.input("x", {DType::bf16, {kTokens, kIn}});
      const Value b = program.input("dy", {DType::bf16, {kTokens, kOut}});
      const Value w = from_state ? program.state("w", type) : program.input("w", type);
      program.output("y", linear(a, w, {}));
      program.output("dx", program.emit(op::linear_bwd_input, {b, w})[0]);
      Selection selection;
      for (const Node& node : program.nodes())
        for (const Impl* impl : backend->implementations(*node.op))
          if (impl->name == name_of(isa)) selection.push_back(impl);
      return selection;
    };
    const auto run = [&](const Program& program, const Selection& selection, const Buffer* state,
                         const std::vector<uint16_t>& w) {
      const MemoryPlan plan = backend->plan(program, selection);
      Bindings bindings{{}, backend->allocate(plan.arena_bytes).value()};
      if (state != nullptr) bindings.states["w"] = *state;
      const auto executable = backend->compile(program, selection, plan, bindings).value();
      Slot slot{{bytes(x), bytes(dy)}};
      if (state == nullptr) slot.inputs.push_back(bytes(w));
      Event event;
      executable->run(slot, &event).check();
      std::vector<std::vector<uint16_t>> out = {std::vector<uint16_t>(kTokens * kOut),
                                                std::vector<uint16_t>(kTokens * kIn)};
      for (size_t i = 0; i < out.size(); ++i)
        executable->read(event, i, std::as_writable_bytes(std::span(out[i]))).check();
      return out;
    };
    Program of_state, of_input;
    const Selection packed = products(of_state, true), plain = products(of_input, false);
    const auto use = packed_use(of_state.nodes()[0], of_state, isa);
    EXPECT_EQ(use.has_value(), packed_b(isa, DType::bf16, kOut, kIn).type == DType::bf16);
    EXPECT_FALSE(packed_use(of_state.nodes()[1], of_state, isa)) << "packed by the product";
    const Buffer state = backend->allocate(kOut * kIn * 2).value();
    EXPECT_EQ(backend->prepared_bytes(of_state, packed, {{{"w", state}}, {}}),
              use ? packed_bytes(*use, isa) : 0);
    for (const uint32_t round : {3u, 4u}) {
      const std::vector<uint16_t> w = draw_bf16(kOut * kIn, round);
      backend->copy_in(state, 0, bytes(w)).check();
      EXPECT_EQ(run(of_state, packed, &state, w), run(of_input, plain, nullptr, w));
      EXPECT_EQ(backend->prepared_bytes(of_state, packed, {{{"w", state}}, {}}), 0u) << "it is there";
    }
  }
}

TEST(PackedWeights, OfMemoryThatIsGivenOutAgainAreOthers) {
  std::vector<float> memory(16);
  const auto buffer = [&](std::shared_ptr<int> owner) {
    return Buffer{std::move(owner), reinterpret_cast<std::byte*>(memory.data()), 64};
  };
  PackedWeights states;
  auto owner = std::make_shared<int>();
  const auto first = states.of(buffer(owner));
  EXPECT_EQ(states.of(buffer(owner)), first);
  owner = std::make_shared<int>();
  EXPECT_NE(states.of(buffer(owner)), first);
}

TEST(PackedWeights, WantMemoryWithAnOwner) {
  std::vector<float> memory(16);
  PackedWeights states;
  EXPECT_THROW(states.of({nullptr, reinterpret_cast<std::byte*>(memory.data()), 64}), Error);
}

TEST(PackedWeights, AreReadByProductsOfBf16AndOfIntegersWithWeightsOfAState) {
  Program program;
  const Value all = program.state("parameters", {DType::f32, {400}});
  const Value w = slice(slice(all, 100, {200}), 20, {8, 16});
  const Value half = program.input("half", {DType::bf16, {3, 16}});
  const Value full = program.input("full", {DType::f32, {3, 16}});
  linear(half, w, {});
  linear(full, w, {});
  linear(half, program.input("w", {DType::f32, {8, 16}}), {});
  linear_int8(full, w, {});
  std::vector<const Node*> products;
  for (const Node& node : program.nodes())
    if (node.op == &op::linear || node.op == &op::linear_int8) products.push_back(&node);
  for (Isa isa : available_isas()) {
    const bool bf16 = packed_b(isa, DType::bf16, 8, 16).type == DType::bf16;
    const auto use = packed_use(*products[0], program, isa);
    ASSERT_EQ(use.has_value(), bf16) << name_of(isa);
    EXPECT_FALSE(packed_use(*products[1], program, isa)) << "f32";
    EXPECT_FALSE(packed_use(*products[2], program, isa)) << "no state";
    const auto int8 = packed_use(*products[3], program, isa);
    ASSERT_TRUE(int8) << "integers, on every level";
    EXPECT_EQ(int8->product, PackedFor::kInt8);
    EXPECT_EQ(int8->offset, 120);
    if (!use) continue;
    EXPECT_EQ(use->offset, 120);
    EXPECT_EQ(use->state, all.id);
  }
}

}  // namespace
}  // namespace lathe::cpu
