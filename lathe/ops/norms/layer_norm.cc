// Layer normalisation over the last axis, with or without a shift.
#include "lathe/ops/norms/layer_norm.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

void ref_layer_norm(Reference& r) {
  const int64_t cols = r.cols(0), rows = r.rows(0);
  const double eps = r.node.attrs.f("eps");
  for (int64_t i = 0; i < rows; ++i) {
    const double* x = &r.in[0][static_cast<size_t>(i * cols)];
    double mean = 0, variance = 0, largest = 0;
    for (int64_t c = 0; c < cols; ++c) mean += x[c] / static_cast<double>(cols);
    for (int64_t c = 0; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(cols);
    for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(x[c]));
    const double rstd = 1 / std::sqrt(variance + eps);
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c), k = static_cast<size_t>(c);
      const double beta = r.in[2].empty() ? 0 : r.in[2][k];
      r.out[0][at] = (x[c] - mean) * rstd * r.in[1][k] + beta;
      // x − mean loses up to eps·max|x|, which rstd then magnifies
      r.magnitude[0][at] = (std::abs(x[c] - mean) + largest) * rstd * std::abs(r.in[1][k]) + std::abs(beta);
    }
    r.out[1][static_cast<size_t>(i)] = mean;
    r.magnitude[1][static_cast<size_t>(i)] = largest;
    r.out[2][static_cast<size_t>(i)] = rstd;
    r.magnitude[2][static_cast<size_t>(i)] = rstd * (1 + largest * largest * rstd * rstd * 1e-3);
  }
}

/// Of errors d of x.  With x̂ = (x − mean) · rstd, rstd = (variance + eps)^−½ and ⟨⟩ the mean over a row:
/// d mean = ⟨d⟩, d variance = 2⟨(x − mean) d⟩, d rstd = −½ rstd³ d variance = −rstd² ⟨x̂ d⟩, hence
/// dx̂ = rstd · (d − ⟨d⟩ − x̂ ⟨x̂ d⟩).  At most, whatever the signs: all terms' magnitudes added up.
Errors layer_norm_moved(const Reference& r, const Errors& in) {
  if (!in[1].empty() || !in[2].empty())
    fail(ErrorCode::kInternal, "layer_norm: moved by errors of gamma or beta, which no fused op has");
  const int64_t cols = r.cols(0), rows = r.rows(0);
  Errors moved(3);
  for (int64_t i = 0; i < rows; ++i) {
    const double mean = r.out[1][static_cast<size_t>(i)], rstd = r.out[2][static_cast<size_t>(i)];
    const auto normal = [&](size_t at) { return std::abs(r.in[0][at] - mean) * rstd; };
    double plain = 0, skewed = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c);
      plain += in[0][at] / static_cast<double>(cols);
      skewed += normal(at) * in[0][at] / static_cast<double>(cols);
    }
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c);
      moved[0].push_back(std::abs(r.in[1][static_cast<size_t>(c)]) * rstd *
                         (in[0][at] + plain + normal(at) * skewed));
    }
    moved[1].push_back(plain);
    moved[2].push_back(rstd * rstd * skewed);
  }
  return moved;
}

void ref_layer_norm_bwd(Reference& r) {
  const int64_t cols = r.cols(0), rows = r.rows(0);
  for (int64_t i = 0; i < rows; ++i) {
    const double mean = r.in[3][static_cast<size_t>(i)], rstd = r.in[4][static_cast<size_t>(i)];
    double a = 0, b = 0, absolute_a = 0, absolute_b = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c), k = static_cast<size_t>(c);
      const double dy = r.in[0][at], xhat = (r.in[1][at] - mean) * rstd, g = dy * r.in[2][k];
      const double n = static_cast<double>(cols),
                   spread = (std::abs(r.in[1][at]) + std::abs(mean)) * std::abs(rstd);
      a += g / n;
      b += g * xhat / n;
      absolute_a += std::abs(g) / n;
      absolute_b += std::abs(g) * spread / n;
      r.out[1][k] += dy * xhat;
      r.magnitude[1][k] += std::abs(dy) * spread;
      r.out[2][k] += dy;
      r.magnitude[2][k] += std::abs(dy);
    }
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c), k = static_cast<size_t>(c);
      const double xhat = (r.in[1][at] - mean) * rstd, g = r.in[0][at] * r.in[2][k];
      const double spread = (std::abs(r.in[1][at]) + std::abs(mean)) * std::abs(rstd);
      r.out[0][at] = rstd * (g - a - xhat * b);
      r.magnitude[0][at] = std::abs(rstd) * (std::abs(g) + absolute_a + spread * absolute_b);
    }
  }
}

Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 8); }

}  // namespace

const OpDef layer_norm{
    .name = "layer_norm",
    .signature = "x[..,n] gamma[n]:f32 beta[n]:f32? -> y[..,n]:x mean[..]:f32 rstd[..]:f32",
    .attrs = {{"eps", 1e-12}},
    .gradient =
        [](const Grad& g) {
          auto d = g.program.emit(layer_norm_bwd, {g.dout[0], g.in(0), g.in(1), g.out(1), g.out(2)});
          if (!g.in(2)) d[2] = {};
          return d;
        },
    .auxiliary_outputs = 2,
    .reference = ref_layer_norm,
    .cases =
        [] {
          std::vector<Case> cases;
          for (int64_t n : {1, 2, 31, 33, 384, 768, 1024, 1100, 1536}) {
            // a one-element row has zero variance: eps decides, and 1e-12 would only magnify rounding
            cases.push_back({std::to_string(n), {{3, n}, {n}, {n}}, {{"eps", n == 1 ? 1e-2 : 1e-12}}});
          }
          for (int64_t n : {33, 768}) cases.push_back({fmt::format("no beta, {}", n), {{3, n}, {n}, {-1}}});
          cases.push_back({"magnitude 1e4", {{4, 128}, {128}, {128}}, {}, {}, 1e4});
          cases.push_back({"zero variance", {{4, 64}, {64}, {64}}, {{"eps", 1e-5}}, {}, 0});
          return cases;
        },
    .bound = {.ulp = 4, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = cost,
    .moved = layer_norm_moved,
    .source = "Ba et al. 2016, eq. 4; eps as in HF BertLayerNorm",
};

const OpDef layer_norm_bwd{
    .name = "layer_norm_bwd",
    .signature =
        "dy[..,n] x[..,n]:dy gamma[n]:f32 mean[..]:f32 rstd[..]:f32 -> dx[..,n]:dy dgamma[n]:f32 "
        "dbeta[n]:f32",
    .gradient = not_differentiable,
    .reference = ref_layer_norm_bwd,
    .cases =
        [] {
          std::vector<Case> cases;
          for (int64_t n : {1, 31, 33, 384, 768, 1024, 1100, 1536})
            cases.push_back({std::to_string(n), {{5, n}, {5, n}, {n}, {5}, {5}}});
          cases.push_back({"many rows", {{300, 48}, {300, 48}, {48}, {300}, {300}}});
          cases.push_back({"thousands of rows", {{3001, 40}, {3001, 40}, {40}, {3001}, {3001}}});
          return cases;
        },
    .bound = {.ulp = 4,
              .terms =
                  [](const Reference& r) { return static_cast<double>(std::max(r.cols(0), r.rows(0))); }},
    .cost = cost,
};

}  // namespace lathe::op
