// y = x·Wᵀ + b in 8-bit integers, for inference.  Every row of x and of W is rounded to −127 … 127 times its
// own scale:
//   scale = a / 127, value = nearest integer to v · (127 / a), halves to even, with a = max |v| of the row,
// both quotients rounded to f32 and v · (127 / a) exact until it is rounded.  A row with a < 2⁻¹⁰⁰ is zero,
// one with a value that is not finite gives NaN.  With that the integers are the same everywhere, and their
// sums exact.
#include "lathe/ops/linear_int8.h"

#include <cmath>
#include <limits>

#include "lathe/ops/product_cost.h"

namespace lathe::op {
namespace {

/// A matrix in integers.
struct Integers {
  std::vector<int64_t> value;
  std::vector<double> scale;  ///< by row
};

Integers integers(const std::vector<double>& x, int64_t rows, int64_t k) {
  Integers q{std::vector<int64_t>(x.size(), 0), {}};
  for (int64_t i = 0; i < rows; ++i) {
    const auto at = [&](int64_t c) { return static_cast<float>(x[static_cast<size_t>(i * k + c)]); };
    float largest = 0;
    bool finite = true;
    for (int64_t c = 0; c < k; ++c) {
      finite &= std::isfinite(at(c));
      largest = std::max(largest, std::abs(at(c)));
    }
    q.scale.push_back(!finite               ? std::numeric_limits<double>::quiet_NaN()
                      : largest < 0x1p-100f ? 0
                                            : double{largest / 127});
    if (!finite || largest < 0x1p-100f) continue;
    const float inverse = 127 / largest;
    for (int64_t c = 0; c < k; ++c)
      q.value[static_cast<size_t>(i * k + c)] = std::llrint(double{at(c)} * double{inverse});
  }
  return q;
}

void ref_linear_int8(Reference& r) {
  const int64_t rows = r.rows(0), k = r.cols(0), n = r.dim(1, 0);
  const Integers x = integers(r.in[0], rows, k), w = integers(r.in[1], n, k);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t c = 0; c < k; ++c)
        sum += x.value[static_cast<size_t>(i * k + c)] * w.value[static_cast<size_t>(j * k + c)];
      const double product =
          static_cast<double>(sum) * x.scale[static_cast<size_t>(i)] * w.scale[static_cast<size_t>(j)];
      const double bias = r.in[2].empty() ? 0 : r.in[2][static_cast<size_t>(j)];
      r.out[0][static_cast<size_t>(i * n + j)] = product + bias;
      r.magnitude[0][static_cast<size_t>(i * n + j)] = std::abs(product) + std::abs(bias);
    }
}

/// A row of zeros, one that is too small, and halves: with 127 the largest, the inverse is 1 and k + ½ a tie.
void ties(Reference& r) {
  const int64_t k = r.cols(0);
  for (int64_t c = 0; c < k; ++c) {
    const double half = static_cast<double>(c % 120) + 0.5;
    r.in[0][static_cast<size_t>(c)] = c == 0 ? 127 : c % 2 == 0 ? half : -half;
    r.in[0][static_cast<size_t>(k + c)] = 0;
    r.in[0][static_cast<size_t>(2 * k + c)] = 0x1p-110;
    r.in[1][static_cast<size_t>(c)] = c == 1 ? -127 : half;
    r.in[1][static_cast<size_t>(k + c)] = 0;
  }
}

void not_finite(Reference& r) {
  const size_t k = static_cast<size_t>(r.cols(0));
  r.in[0][3] = std::numeric_limits<double>::infinity();
  r.in[0][2 * k + 5] = std::numeric_limits<double>::quiet_NaN();
  r.in[1][k] = -std::numeric_limits<double>::infinity();
}

std::vector<Case> linear_int8_cases() {
  std::vector<Case> cases;
  const std::vector<Shape> sizes = {{1, 1, 1},    {1, 32, 2},  {7, 31, 33},    {16, 64, 64},
                                    {33, 65, 17}, {40, 96, 6}, {130, 128, 96}, {35, 1601, 40}};
  for (const Shape& s : sizes) cases.push_back({to_string(s), {{s[0], s[1]}, {s[2], s[1]}, {s[2]}}});
  cases.push_back({"no bias", {{5, 40}, {24, 40}, {-1}}});
  cases.push_back({"rank 3", {{2, 3, 40}, {24, 40}, {24}}});
  cases.push_back({"ties and zeros", {{4, 70}, {9, 70}, {9}}, {}, {}, 1, ties});
  cases.push_back({"not finite", {{4, 70}, {9, 70}, {9}}, {}, {}, 1, not_finite});
  cases.push_back({"large", {{4, 70}, {9, 70}, {9}}, {}, {}, 1e6});
  return cases;
}

}  // namespace

const OpDef linear_int8{
    .name = "linear_int8",
    .signature = "x[..,k] w[n,k]:f32 b[n]:f32? -> y[..,n]:x",
    .gradient = not_differentiable,
    .reference = ref_linear_int8,
    .cases = linear_int8_cases,
    // The integers are exact.  Four values are rounded: their sum as a float, the product of the scales, that
    // of both, and the sum with b.
    .bound = {.ulp = 4},
    .cost = product_cost,
    .source = "Dettmers et al. 2022 (arXiv 2208.07339), section 2: vector-wise quantization",
};

}  // namespace lathe::op
