// Dropout whose decision is a pure function of what it decides (lathe/core/philox.h).
#include "lathe/ops/dropout.h"

#include "lathe/core/philox.h"

namespace lathe::op {
namespace {

void ref_dropout(Reference& r) {
  const int64_t cols = r.cols(0), rows = r.rows(0);
  const uint32_t threshold = dropout_threshold(r.node.attrs.f("p"));
  const double scale = dropout_scale(r.node.attrs.f("p"));
  const uint32_t site = static_cast<uint32_t>(r.node.attrs.i("site"));
  const uint32_t seed = static_cast<uint32_t>(static_cast<int64_t>(r.in[3][0]));
  const uint32_t step = static_cast<uint32_t>(static_cast<int64_t>(r.in[3][1]));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < cols; ++c) {
      const uint32_t sample = static_cast<uint32_t>(r.in[1][static_cast<size_t>(i)]);
      const uint32_t position = r.in[2].empty() ? 0 : static_cast<uint32_t>(r.in[2][static_cast<size_t>(i)]);
      const auto words = philox({static_cast<uint32_t>(c / 8), position, sample, site}, seed, step);
      const size_t at = static_cast<size_t>(i * cols + c);
      r.out[0][at] = dropout_bits(words, static_cast<int>(c % 8)) < threshold ? 0 : r.in[0][at] * scale;
    }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int64_t n : {1, 8, 31, 64, 100})
    all.push_back({std::to_string(n),
                   {{3, n}, {3}, {3}, {2}},
                   {{"p", 0.1}, {"site", int64_t{77}}},
                   {{4, 4, 9}, {0, 5, 1}, {42, 7}}});
  all.push_back(
      {"no positions", {{2, 40}, {2}, {-1}, {2}}, {{"p", 0.5}, {"site", int64_t{1}}}, {{0, 1}, {-5, 7}}});
  all.push_back(
      {"p = 0", {{2, 40}, {2}, {2}, {2}}, {{"p", 0.0}, {"site", int64_t{1}}}, {{0, 1}, {0, 1}, {3, 4}}});
  return all;
}

}  // namespace

/// rng = {seed, update step}; site = dropout_site(name).  Its own gradient: the same mask, over dy.
const OpDef dropout{
    .name = "dropout",
    .signature = "x[n,c] sample_ids[n]:i32 positions[n]:i32? rng[2]:i32 -> y[n,c]:x",
    .attrs = {{"p", 0.1}, {"site", int64_t{0}}},
    .gradient =
        [](const Grad& g) {
          auto d = g.program.emit(dropout, {g.dout[0], g.in(1), g.in(2), g.in(3)}, g.node.attrs);
          d.resize(4);
          return d;
        },
    .reference = ref_dropout,
    .cases = cases,
    .bound = {.ulp = 1},
    .cost = [](const Node& n, const Program& p) { return elementwise_cost(n, p, 1); },
    .source = "Srivastava et al. 2014; Philox: Salmon et al. 2011",
};

}  // namespace lathe::op
