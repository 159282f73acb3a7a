// Matrix products in the order of a step of BERT-base in bf16, each on memory of its own that its producer
// has just written, with the workspace at one place and, in turns, each time where others lay some time ago
// (Impl::apart), where operands are packed past the caches. And what products that are cut so cannot beat:
// the tiles that the threads multiply, alone, of a that each of them has just written and b from memory;
// nothing is packed, stored, dealt or waited for. step_products_bench [threads] [tokens] [layers] [rounds]:
// JSON lines, medians.
#include <fmt/core.h>
#include <stdint.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/gemm_plan.h"
#include "lathe/backends/cpu/memory.h"

namespace lathe::cpu {
namespace {

constexpr struct { int64_t in, out; } kLayers[] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
constexpr const char* kPasses[] = {"forward", "grad_input", "grad_weight"};
constexpr size_t kPlaces = 32;  // of workspaces, apart
constexpr int64_t kGap = 32;    // between rows of activations, as a step lays them
enum Way { kOne, kApart, kTiles, kWays };
constexpr const char* kWayNames[] = {"one", "apart", "none, tiles alone"};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

/// A matrix of bf16 around ±0.5, first touched by all threads.
class Matrix {
 public:
  Matrix(ThreadPool& pool, int64_t rows, int64_t cols)
      : pool_(pool), words_(rows * cols / 2), data_(allocate_zeroed(static_cast<size_t>(rows * cols) * 2)) {
    if (data_ == nullptr) std::exit(1);
    write();
  }
  void* data() const { return data_.get(); }
  /// Each thread writes its rows anew, as an op on rows does.
  void write() const {
    pool_.run([&](int part, int parts) {
      const Share mine = share(words_, part, parts);
      auto* words = reinterpret_cast<uint32_t*>(data_.get());
      for (long i = mine.begin; i < mine.end; ++i)
        words[i] = 0x3f003f00u | (static_cast<uint32_t>(i) * 2654435761u & 0x807f807fu);
    });
  }

 private:
  ThreadPool& pool_;
  int64_t words_;
  std::shared_ptr<std::byte> data_;
};

struct Linear {
  int64_t in, out;
  Matrix x, y, w, w_turned, dw;
};

class Step {
 public:
  Step(ThreadPool& pool, int64_t tokens, int64_t layers)
      : pool_(pool), tokens_(tokens), dy_(pool, tokens, 3072 + kGap), dx_(pool, tokens, 3072 + kGap) {
    for (int64_t layer = 0; layer < layers; ++layer)
      for (const auto& [in, out] : kLayers)
        linears_.push_back({in,
                            out,
                            {pool, tokens, in + kGap},
                            {pool, tokens, out + kGap},
                            {pool, out, in},
                            {pool, out, in},
                            {pool, out, in}});
    for (const Linear& l : linears_)
      for (int pass = 0; pass < 3; ++pass)
        workspace_bytes_ =
            std::max(workspace_bytes_, gemm_workspace_bytes(isa_, product(l, pass), pool.size()));
    workspace_bytes_ = (workspace_bytes_ + 63) / 64 * 64;
    workspaces_ = allocate_zeroed(workspace_bytes_ * kPlaces);
    if (workspaces_ == nullptr) std::exit(1);
    const size_t own_bytes =
        kSumBytes + static_cast<size_t>(std::max<int64_t>(tokens, 3072) * (3072 + kGap) * 2);
    for (int part = 0; part < pool.size(); ++part) {
      own_.push_back(allocate_zeroed(own_bytes));
      if (own_.back() == nullptr) std::exit(1);
    }
  }

  double flop() const {
    double sum = 0;
    for (const Linear& l : linears_) sum += 2.0 * static_cast<double>(l.in * l.out * tokens_);
    return sum;
  }

  /// Adds the seconds of each pass.
  void run(Way way, double (&seconds)[3]) {
    for (const Linear& l : linears_) {
      l.x.write();
      run(l, 0, way, seconds);
    }
    for (size_t i = linears_.size(); i-- > 0;) {
      dy_.write();
      run(linears_[i], 2, way, seconds);
      run(linears_[i], 1, way, seconds);
    }
  }

 private:
  Gemm product(const Linear& l, int pass) const {
    Gemm g{.a_type = DType::bf16, .b_type = DType::bf16, .c_type = DType::bf16};
    if (pass == 0) {
      g.m = tokens_, g.n = l.out, g.k = l.in, g.lda = l.in + kGap, g.ldc = l.out + kGap;
      g.a = l.x.data(), g.b = l.w.data(), g.c = l.y.data();
      g.ldb = l.in, g.b_packed = g.b_transposed = g.c_cold = true;
    } else if (pass == 1) {
      g.m = tokens_, g.n = l.in, g.k = l.out, g.lda = l.out + kGap, g.ldc = l.in + kGap;
      g.a = dy_.data(), g.b = l.w_turned.data(), g.c = dx_.data();
      g.ldb = l.in, g.b_packed = true;
    } else {
      g.m = l.out, g.n = l.in, g.k = tokens_, g.lda = l.out + kGap, g.ldb = l.in + kGap, g.ldc = l.in;
      g.a = dy_.data(), g.b = l.x.data(), g.c = l.dw.data();
      g.a_transposed = g.c_streams = true;
    }
    return g;
  }
  void run(const Linear& l, int pass, Way way, double (&seconds)[3]) {
    const size_t place = way == kApart ? place_++ % kPlaces : 0;
    Gemm g = product(l, pass);
    if (way == kTiles) {
      seconds[pass] += run_tiles(g);
      return;
    }
    g.workspace_cold = way == kApart;
    const double begin = now();
    gemm(pool_, isa_, g, workspaces_.get() + place * workspace_bytes_);
    seconds[pass] += now() - begin;
  }

  /// The mean of the threads' seconds for the tiles of their regions, panels of a in the order of the plan.
  double run_tiles(const Gemm& g) {
    const Plan plan(isa_, g, pool_.size());
    std::vector<double> seconds(static_cast<size_t>(pool_.size()));
    pool_.run([&](int part, int) {
      const Share rows = share(plan.m_panels, part / plan.across, plan.down);
      const Share columns = share(plan.n_panels, part % plan.across, plan.across);
      const bool in_place = plan.first_packed > 0;
      const int64_t bytes = plan.element_bytes(), group = plan.kernel.a_group * bytes;
      const int64_t row = in_place ? (plan.k_padded + kGap) * bytes : group;
      const int64_t a_panel = plan.mr * (in_place ? row : plan.k_padded * bytes);
      const int64_t b_panel = plan.kernel.nr * plan.k_padded * bytes;
      char* const a = reinterpret_cast<char*>(own_[static_cast<size_t>(part)].get());
      float* const acc = reinterpret_cast<float*>(a);
      std::fill_n(reinterpret_cast<uint16_t*>(a + kSumBytes), (rows.end - rows.begin) * a_panel / 2, 0x3f00);
      GemmTile t{};
      t.a_row_bytes = row, t.a_step_bytes = in_place ? group : group * plan.mr;
      t.k = plan.k_padded, t.acc = acc, t.rows = plan.mr;
      if (plan.kernel.begin != nullptr) plan.kernel.begin();
      const double begin = now();
      for (long first = rows.begin; first < rows.end; first += plan.m_step) {
        const long last = std::min<long>(first + plan.m_step, rows.end);
        t.next_bytes = b_panel / (last - first);
        for (long j = columns.begin; j < columns.end; ++j)
          for (long i = first; i < last; ++i) {
            t.a = a + kSumBytes + (i - rows.begin) * a_panel;
            t.b = static_cast<const char*>(g.b) + j * b_panel;
            t.next = static_cast<const char*>(t.b) + b_panel + (i - first) * t.next_bytes;
            plan.kernel.tile(&t);
          }
      }
      seconds[static_cast<size_t>(part)] = now() - begin;
      if (plan.kernel.end != nullptr) plan.kernel.end();
    });
    double sum = 0;
    for (const double each : seconds) sum += each;
    return sum / pool_.size();
  }

  static constexpr int64_t kSumBytes = 1 << 16;
  ThreadPool& pool_;
  const Isa isa_ = chosen_isa();
  int64_t tokens_;
  Matrix dy_, dx_;
  std::vector<Linear> linears_;
  size_t workspace_bytes_ = 0, place_ = 0;
  std::shared_ptr<std::byte> workspaces_;
  std::vector<std::shared_ptr<std::byte>> own_;  // of each thread: sums, and a
};

int run(int argc, char** argv) {
  const auto argument = [&](int i, int other) {
    return argc > i ? std::max(std::min(1, other), std::atoi(argv[i])) : other;
  };
  ThreadPool pool(argument(1, 0));
  const int64_t tokens = argument(2, 1024), layers = argument(3, 12);
  const int rounds = argument(4, 10);
  Step step(pool, tokens, layers);
  std::vector<double> times[kWays][3];
  for (int round = 0; round < rounds; ++round)
    for (const Way way : {kOne, kApart, kTiles}) {
      double seconds[3] = {};
      step.run(way, seconds);
      for (int pass = 0; pass < 3; ++pass) times[way][pass].push_back(seconds[pass]);
    }
  for (const Way way : {kOne, kApart, kTiles})
    for (int pass = 0; pass < 3; ++pass)
      fmt::print(
          "{{\"bench\":\"step_products\",\"isa\":\"{}\",\"threads\":{},\"tokens\":{},\"layers\":{},"
          "\"pass\":\"{}\",\"workspace\":\"{}\",\"median_ms\":{:.3f},\"gflops\":{:.1f}}}\n",
          name_of(chosen_isa()), pool.size(), tokens, layers, kPasses[pass], kWayNames[way],
          median(times[way][pass]) * 1e3, 1e-9 * step.flop() / median(times[way][pass]));
  return 0;
}

}  // namespace
}  // namespace lathe::cpu

int main(int argc, char** argv) { return lathe::cpu::run(argc, argv); }
