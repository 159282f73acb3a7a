// Layer norm, dropout and GELU in bf16: microseconds, and the share of the bandwidth of a copy by the same
// threads, of operands that no cache holds any more ("cold", as after a pass) and of the same ones over and
// over ("warm"). rows_bench [threads [rows [cols [seconds per case]]]]: JSON lines.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kColdBytes = int64_t{1} << 30;
constexpr int kTensors = 4;

/// The operands of one call; tensors are bf16 [rows, cols].
struct Operands {
  void* tensor[kTensors];
  std::vector<float> mean, rstd;
};

struct Case {
  std::string name;
  int tensors;  ///< that are read or written
  std::function<void(Operands&)> call;
};

double median_us(double seconds, std::vector<Operands>& sets, size_t used,
                 const std::function<void(Operands&)>& call) {
  std::vector<double> us;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (size_t i = 0; us.size() < 5 || Clock::now() < end; ++i) {
    const auto begin = Clock::now();
    call(sets[i % used]);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

void run(int threads, Rows::Size s, double seconds) {
  ThreadPool pool(threads);
  const Isa isa = chosen_isa();
  const Rows rows(pool, isa);
  const int64_t n = s.rows * s.cols, bytes = n * 2;
  const int64_t all = std::max(kColdBytes, bytes * kTensors);
  const auto memory = allocate_zeroed(static_cast<size_t>(all));
  if (memory == nullptr) fail(ErrorCode::kMemory, "rows_bench: found no {} bytes of memory", all);
  std::vector<Operands> sets(static_cast<size_t>(all / (bytes * kTensors)));
  uint32_t random = 1;
  for (size_t i = 0; i < sets.size(); ++i) {
    sets[i].mean.assign(static_cast<size_t>(s.rows), 0.f);
    sets[i].rstd.assign(static_cast<size_t>(s.rows), 1.f);
    for (int t = 0; t < kTensors; ++t) {
      auto* x = reinterpret_cast<uint16_t*>(memory.get() + (static_cast<int64_t>(i) * kTensors + t) * bytes);
      for (int64_t e = 0; e < n; ++e) {
        random = random * 1664525u + 1013904223u;
        x[e] = static_cast<uint16_t>(0x3f00u | (random >> 16 & 0x80ffu));  // ±[0.5, 2)
      }
      sets[i].tensor[t] = x;
    }
  }
  // vectors of columns, each on its own cache lines, as a program's are
  const int64_t stride = (s.cols + 15) / 16 * 16;
  const auto vectors = allocate_zeroed(static_cast<size_t>(4 * stride) * sizeof(float));
  if (vectors == nullptr) fail(ErrorCode::kMemory, "rows_bench: found no memory for vectors of {}", s.cols);
  float* const gamma = reinterpret_cast<float*>(vectors.get());
  float *const beta = gamma + stride, *const dgamma = beta + stride, *const dbeta = dgamma + stride;
  std::fill(gamma, gamma + stride, 1.f);
  std::vector<int32_t> ids(static_cast<size_t>(s.rows), 0), positions(ids);
  for (size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<int32_t>(i);
  const Rows::Dropped dropped{dropout_rule(42, 1, 7, 0.1), ids.data(), positions.data()};
  const auto workspace = allocate_zeroed(Rows::layer_norm_bwd_workspace_bytes(s));
  const auto norm = [&](Operands& o) {
    return Rows::Norm{gamma, beta, 1e-12f, o.mean.data(), o.rstd.data()};
  };
  const auto bwd = [&](Operands& o, const Rows::Dropped* d) {
    rows.layer_norm_bwd(DType::bf16, s, o.tensor[0], o.tensor[1], gamma, o.mean.data(), o.rstd.data(),
                        o.tensor[2], dgamma, dbeta, workspace.get(), d, o.tensor[3]);
  };
  const auto& t = DType::bf16;
  const std::vector<Case> cases = {
      {"copy", 2,
       [&](Operands& o) {
         for_shares(pool, bytes, 1, 64, [&](int64_t begin, int64_t end) {
           std::memcpy(static_cast<std::byte*>(o.tensor[1]) + begin,
                       static_cast<const std::byte*>(o.tensor[0]) + begin, static_cast<size_t>(end - begin));
         });
       }},
      {"layer_norm", 2, [&](Operands& o) { rows.layer_norm(t, s, o.tensor[0], norm(o), o.tensor[1]); }},
      {"dropout_add_layer_norm", 4,
       [&](Operands& o) {
         rows.add_layer_norm(t, s, &dropped, o.tensor[0], o.tensor[1], norm(o), o.tensor[2], o.tensor[3]);
       }},
      {"layer_norm_bwd", 3, [&](Operands& o) { bwd(o, nullptr); }},
      {"layer_norm_dropout_bwd", 4, [&](Operands& o) { bwd(o, &dropped); }},
      {"dropout", 2, [&](Operands& o) { rows.dropout(t, s, dropped, o.tensor[0], o.tensor[1]); }},
      {"gelu", 2, [&](Operands& o) { rows.gelu(t, n, o.tensor[0], o.tensor[1]); }},
      {"gelu past the caches", 2, [&](Operands& o) { rows.gelu(t, n, o.tensor[0], o.tensor[1], true); }},
      {"gelu_bwd", 3, [&](Operands& o) { rows.gelu_bwd(t, n, o.tensor[0], o.tensor[1], o.tensor[2]); }}};
  for (const bool cold : {true, false}) {
    double copy = 0;
    for (const Case& c : cases) {
      const double us = median_us(seconds, sets, cold ? sets.size() : 1, c.call);
      const double rate = static_cast<double>(c.tensors * bytes) / us * 1e-3;
      if (c.name == "copy") copy = rate;
      fmt::print(
          "{{\"bench\":\"rows\",\"op\":\"{}\",\"operands\":\"{}\",\"isa\":\"{}\",\"threads\":{},\"rows\":{},"
          "\"cols\":{},\"us\":{:.1f},\"gb_per_s\":{:.1f},\"percent_of_copy\":{:.0f}}}\n",
          c.name, cold ? "cold" : "warm", name_of(isa), pool.size(), s.rows, s.cols, us, rate,
          100 * rate / copy);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

int main(int argc, char** argv) {
  const auto number = [&](int i, double otherwise) { return argc > i ? std::atof(argv[i]) : otherwise; };
  const lathe::cpu::Rows::Size size{static_cast<int64_t>(number(2, 1024)),
                                    static_cast<int64_t>(number(3, 768))};
  if (size.rows < 1 || size.cols < 1) {
    fmt::print(stderr, "rows_bench: found {} rows of {} columns, expected at least 1\n", size.rows,
               size.cols);
    return 2;
  }
  try {
    lathe::cpu::run(static_cast<int>(number(1, 0)), size, number(4, 0.3));
  } catch (const lathe::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
