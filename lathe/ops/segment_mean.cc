// The mean over the tokens of each row of a packed batch: mean pooling.
#include "lathe/ops/segment_mean.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

/// f(segment, token, tokens of the segment) for every token of every segment.
template <typename F>
void for_tokens(const std::vector<double>& cu, F f) {
  for (size_t b = 0; b + 1 < cu.size(); ++b)
    for (size_t n = static_cast<size_t>(cu[b]); n < static_cast<size_t>(cu[b + 1]); ++n)
      f(b, n, cu[b + 1] - cu[b]);
}

void ref_segment_mean(Reference& r) {
  const size_t cols = static_cast<size_t>(r.cols(0));
  for_tokens(r.in[1], [&](size_t b, size_t n, double tokens) {
    for (size_t c = 0; c < cols; ++c) {
      r.out[0][b * cols + c] += r.in[0][n * cols + c] / tokens;
      r.magnitude[0][b * cols + c] += std::abs(r.in[0][n * cols + c]) / tokens;
    }
  });
}

void ref_segment_mean_bwd(Reference& r) {
  const size_t cols = static_cast<size_t>(r.cols(0));
  for_tokens(r.in[1], [&](size_t b, size_t n, double tokens) {
    for (size_t c = 0; c < cols; ++c) r.out[0][n * cols + c] = r.in[0][b * cols + c] / tokens;
  });
}

double longest(const Reference& r) {
  double tokens = 1;
  for (size_t b = 0; b + 1 < r.in[1].size(); ++b) tokens = std::max(tokens, r.in[1][b + 1] - r.in[1][b]);
  return tokens;
}

Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 1); }

/// An empty row, one token, tokens that belong to no row.
const std::vector<std::vector<int32_t>> kBounds = {{0, 1}, {0, 3, 4, 9}, {0, 2, 2, 6}, {0, 130, 255, 300}};

std::vector<Case> cases(bool backward) {
  std::vector<Case> all;
  for (const auto& cu : kBounds)
    for (int64_t cols : {1, 33, 96}) {
      const int64_t rows = static_cast<int64_t>(cu.size()) - 1, tokens = cu.back() + 2;
      Case c{fmt::format("{} rows, {} columns, {} tokens", rows, cols, cu.back())};
      c.in = {{backward ? rows : tokens, cols}, {rows + 1}};
      c.ints = {cu};
      if (backward) c.attrs = {{"tokens", tokens}};
      all.push_back(c);
    }
  return all;
}

}  // namespace

/// y[b]: the mean of x[n] over cu[b] ≤ n < cu[b+1]; 0 where there is none.  cu: ascending.
const OpDef segment_mean{
    .name = "segment_mean",
    .signature = "x[N,c] cu[B+1]:i32 -> y[B,c]:x",
    .gradient =
        [](const Grad& g) {
          const Attrs attrs = {{"tokens", g.in(0).type().shape[0]}};
          return std::vector<Value>{g.program.emit(segment_mean_bwd, {g.dout[0], g.in(1)}, attrs)[0],
                                    Value{}};
        },
    .reference = ref_segment_mean,
    .cases = [] { return cases(false); },
    .bound = {.ulp = 4, .terms = longest},
    .cost = cost,
    .source = "HF ModernBertForSequenceClassification, classifier_pooling mean",
};

/// dx of tokens that belong to no row: 0.
const OpDef segment_mean_bwd{
    .name = "segment_mean_bwd",
    .signature = "dy[B,c] cu[B+1]:i32 -> dx[@tokens,c]:dy",
    .attrs = {{"tokens", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = ref_segment_mean_bwd,
    .cases = [] { return cases(true); },
    .bound = {.ulp = 2},
    .cost = cost,
};

}  // namespace lathe::op
