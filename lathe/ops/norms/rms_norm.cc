// Normalisation of each row by its root mean square.
#include "lathe/ops/norms/rms_norm.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

/// The factor of a normalised column.
double weight(const Reference& r, double gamma) { return r.node.attrs.b("plus_one") ? 1 + gamma : gamma; }

void ref_rms_norm(Reference& r) {
  const int64_t cols = r.cols(0), rows = r.rows(0);
  const double eps = r.node.attrs.f("eps");
  for (int64_t i = 0; i < rows; ++i) {
    const double* x = &r.in[0][static_cast<size_t>(i * cols)];
    double square = 0;
    for (int64_t c = 0; c < cols; ++c) square += x[c] * x[c] / static_cast<double>(cols);
    const double rstd = 1 / std::sqrt(square + eps);
    for (int64_t c = 0; c < cols; ++c)
      r.out[0][static_cast<size_t>(i * cols + c)] = x[c] * rstd * weight(r, r.in[1][static_cast<size_t>(c)]);
    r.out[1][static_cast<size_t>(i)] = rstd;
  }
}

/// Of errors d of x.  With x̂ = x · rstd, rstd = (⟨x²⟩ + eps)^−½ and ⟨⟩ the mean over a row:
/// d rstd = −½ rstd³ · 2⟨x d⟩ = −rstd² ⟨x̂ d⟩, hence dx̂ = rstd · (d − x̂ ⟨x̂ d⟩).  At most, whatever the signs:
/// both terms' magnitudes added up.
Errors rms_norm_moved(const Reference& r, const Errors& in) {
  if (!in[1].empty()) fail(ErrorCode::kInternal, "rms_norm: moved by errors of gamma, which no fused op has");
  const int64_t cols = r.cols(0), rows = r.rows(0);
  Errors moved(2);
  for (int64_t i = 0; i < rows; ++i) {
    const double rstd = r.out[1][static_cast<size_t>(i)];
    const auto normal = [&](size_t at) { return std::abs(r.in[0][at]) * rstd; };
    double skewed = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c);
      skewed += normal(at) * in[0][at] / static_cast<double>(cols);
    }
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c);
      const double factor = std::abs(weight(r, r.in[1][static_cast<size_t>(c)]));
      moved[0].push_back(factor * rstd * (in[0][at] + normal(at) * skewed));
    }
    moved[1].push_back(rstd * rstd * skewed);
  }
  return moved;
}

/// With g = dy · weight and x̂ = x · rstd: dx = rstd · (g − x̂ ⟨g x̂⟩), dgamma = Σ over rows of dy · x̂.
void ref_rms_norm_bwd(Reference& r) {
  const int64_t cols = r.cols(0), rows = r.rows(0);
  for (int64_t i = 0; i < rows; ++i) {
    const double rstd = r.in[3][static_cast<size_t>(i)];
    double b = 0, absolute = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c), k = static_cast<size_t>(c);
      const double xhat = r.in[1][at] * rstd, g = r.in[0][at] * weight(r, r.in[2][k]);
      b += g * xhat / static_cast<double>(cols);
      absolute += std::abs(g * xhat) / static_cast<double>(cols);
      r.out[1][k] += r.in[0][at] * xhat;
      r.magnitude[1][k] += std::abs(r.in[0][at] * xhat);
    }
    for (int64_t c = 0; c < cols; ++c) {
      const size_t at = static_cast<size_t>(i * cols + c), k = static_cast<size_t>(c);
      const double xhat = r.in[1][at] * rstd, g = r.in[0][at] * weight(r, r.in[2][k]);
      r.out[0][at] = rstd * (g - xhat * b);
      r.magnitude[0][at] = std::abs(rstd) * (std::abs(g) + std::abs(xhat) * absolute);
    }
  }
}

Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 5); }

/// Without plus_one a weight of zeros would hide all else, so both ways have their sizes.
const int64_t kWidths[] = {1, 2, 31, 33, 64, 128, 576, 1024, 1100, 1152};

}  // namespace

/// y = x · rstd · gamma, or · (1 + gamma) with plus_one, as Gemma stores its weights; rstd = (⟨x²⟩ + eps)^−½.
const OpDef rms_norm{
    .name = "rms_norm",
    .signature = "x[..,n] gamma[n]:f32 -> y[..,n]:x rstd[..]:f32",
    .attrs = {{"eps", 1e-6}, {"plus_one", false}},
    .gradient =
        [](const Grad& g) {
          return g.program.emit(rms_norm_bwd, {g.dout[0], g.in(0), g.in(1), g.out(1)},
                                {{"plus_one", g.node.attrs.b("plus_one")}});
        },
    .auxiliary_outputs = 1,
    .reference = ref_rms_norm,
    .cases =
        [] {
          std::vector<Case> cases;
          for (int64_t n : kWidths) cases.push_back({std::to_string(n), {{3, n}, {n}}});
          for (int64_t n : {1, 33, 1152})
            cases.push_back({fmt::format("plus one, {}", n), {{3, n}, {n}}, {{"plus_one", true}}});
          cases.push_back({"magnitude 1e4", {{4, 128}, {128}}, {}, {}, 1e4});
          cases.push_back({"zeros", {{4, 64}, {64}}, {{"eps", 1e-5}}, {}, 0});
          cases.push_back({"eps decides", {{4, 64}, {64}}, {{"eps", 1e-2}}, {}, 1e-3});
          cases.push_back({"rank 3", {{2, 3, 40}, {40}}});
          cases.push_back({"many rows", {{301, 72}, {72}}});
          return cases;
        },
    // no terms cancel: the sum of squares, halved by the root; the root, the division, two products and 1 +
    // gamma
    .bound = {.ulp = 4, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = cost,
    .optional = true,
    .moved = rms_norm_moved,
    .source =
        "Zhang and Sennrich 2019 (arXiv 1910.07467), eq. 4; eps as in HF LlamaRMSNorm, plus_one as in "
        "Gemma3RMSNorm",
};

const OpDef rms_norm_bwd{
    .name = "rms_norm_bwd",
    .signature = "dy[..,n] x[..,n]:dy gamma[n]:f32 rstd[..]:f32 -> dx[..,n]:dy dgamma[n]:f32",
    .attrs = {{"plus_one", false}},
    .gradient = not_differentiable,
    .reference = ref_rms_norm_bwd,
    .cases =
        [] {
          std::vector<Case> cases;
          for (int64_t n : kWidths) cases.push_back({std::to_string(n), {{5, n}, {5, n}, {n}, {5}}});
          for (int64_t n : {1, 33, 1152})
            cases.push_back(
                {fmt::format("plus one, {}", n), {{5, n}, {5, n}, {n}, {5}}, {{"plus_one", true}}});
          cases.push_back({"rank 3", {{2, 3, 40}, {2, 3, 40}, {40}, {2, 3}}});
          cases.push_back({"many rows", {{300, 48}, {300, 48}, {48}, {300}}});
          cases.push_back({"thousands of rows", {{3001, 40}, {3001, 40}, {40}, {3001}}});
          return cases;
        },
    .bound = {.ulp = 4,
              .terms =
                  [](const Reference& r) { return static_cast<double>(std::max(r.cols(0), r.rows(0))); }},
    .cost = cost,
    .optional = true,
};

}  // namespace lathe::op
