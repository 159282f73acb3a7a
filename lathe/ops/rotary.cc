// Rotary positions: pairs of columns of queries and keys are turned by an angle that grows with the position.
#include "lathe/ops/rotary.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/ops/qkv_heads.h"

namespace lathe {

Numbers rotary_frequencies(int64_t width, double theta) {
  Numbers frequencies;
  for (int64_t i = 0; i < width / 2; ++i)
    frequencies.push_back(
        static_cast<float>(std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(width))));
  return frequencies;
}

std::vector<float> frequencies_of(const Attrs& attrs) {
  const Numbers& numbers = attrs.numbers("frequencies");
  return {numbers.begin(), numbers.end()};
}

namespace op {
namespace {

void check(std::span<const Type> in, const Attrs& attrs) {
  const QkvHeads of = qkv_heads("rotary", in[0].shape[1], attrs);
  const size_t pairs = attrs.numbers("frequencies").size();
  if (of.width % 2 != 0 || static_cast<int64_t>(pairs) != of.width / 2)
    fail(ErrorCode::kShape,
         "rotary: found {} frequencies for heads of {} columns, expected one for two columns", pairs,
         of.width);
}

void ref_rotary(Reference& r) {
  const QkvHeads of = qkv_heads("rotary", r.cols(0), r.node.attrs);
  const int64_t width = of.width;
  const std::vector<float> frequencies = frequencies_of(r.node.attrs);
  const double sign = r.node.attrs.b("inverse") ? -1 : 1, factor = r.node.attrs.f("factor");
  const double rounded = factor == 1 ? 1 : 1.25;  // one product more for the four that the bound counts
  r.out[0] = r.in[0];                             // v stays
  for (int64_t n = 0; n < r.rows(0); ++n)
    for (int64_t head = 0; head < of.heads + of.kv_heads; ++head)  // of q, then of k
      for (int64_t i = 0; i < width / 2; ++i) {
        const size_t at = static_cast<size_t>(n * r.cols(0) + head * width + i);
        const size_t other = at + static_cast<size_t>(width / 2);
        // a product in f32, as transformers has it
        const double angle =
            static_cast<float>(r.in[1][static_cast<size_t>(n)]) * frequencies[static_cast<size_t>(i)];
        const double c = std::cos(angle), s = sign * std::sin(angle), a = r.in[0][at], b = r.in[0][other];
        r.out[0][at] = factor * (a * c - b * s);
        r.out[0][other] = factor * (b * c + a * s);
        // an angle that is not rounded to f32 differs by up to 2⁻²⁴ of itself
        r.magnitude[0][at] = r.magnitude[0][other] =
            std::abs(factor) * rounded * (std::abs(a) + std::abs(b)) * (1 + std::abs(angle));
      }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, int64_t heads, int64_t width, std::vector<int32_t> positions,
                       double theta = 1e4, bool inverse = false, int64_t kv_heads = 0, double factor = 1) {
    const int64_t tokens = static_cast<int64_t>(positions.size());
    const int64_t columns = (heads + 2 * (kv_heads == 0 ? heads : kv_heads)) * width;
    Case c{name,
           {{tokens, columns}, {tokens}},
           {{"heads", heads},
            {"kv_heads", kv_heads},
            {"frequencies", rotary_frequencies(width, theta)},
            {"factor", factor},
            {"inverse", inverse}},
           {std::move(positions)},
           2};
    c.optional = kv_heads != 0 || factor != 1;
    all.push_back(std::move(c));
  };
  add("one token", 1, 2, {0});
  add("two rows", 2, 8, {0, 1, 2, 0, 1});
  add("inverse", 3, 12, {0, 1, 2, 3, 0, 1}, 1.6e5, true);
  add("width 64", 2, 64, {0, 1, 2, 3, 4, 5, 100, 511}, 1.6e5);
  add("far", 1, 32, {8191, 8190, 4097});
  std::vector<int32_t> many;
  for (int32_t i = 0; i < 300; ++i) many.push_back(i % 150);
  add("many tokens", 2, 24, many);
  add("heads 4 of 2", 4, 16, {0, 1, 2, 3, 0, 1, 77}, 1e6, false, 2);
  add("heads 9 of 3, inverse", 9, 64, {0, 1, 2, 0, 1}, 1e5, true, 3);
  add("factor", 2, 128, {0, 1, 2, 3, 4095}, 5e5, false, 1, 1.3);
  add("factor, inverse", 2, 6, {5, 1, 2}, 1e4, true, 0, 0.7);
  // as linear, llama3 and yarn change them: frequencies of no power, and of none
  all.push_back(all[1]);
  all.back().name = "any frequencies";
  all.back().attrs["frequencies"] = Numbers{1, 0.3f, 0.0078125, 0};
  return all;
}

}  // namespace

/// q and k of each head are turned by the position of their token; v stays.  qkv: QkvHeads.  Columns i and
/// i + D/2 of a head are a pair: (a, b) → factor · (a cos φ − b sin φ, b cos φ + a sin φ), φ = position ·
/// frequencies[i].  inverse: by −φ, which is the gradient.  factor: what YaRN multiplies queries and keys
/// with.
const OpDef rotary{
    .name = "rotary",
    .signature = "qkv[N,W] positions[N]:i32 -> y[N,W]:qkv",
    .attrs = {{"heads", int64_t{1}},
              {"kv_heads", int64_t{0}},
              {"frequencies", Numbers{}},
              {"factor", 1.0},
              {"inverse", false}},
    .check = check,
    .gradient =
        [](const Grad& g) {
          Attrs attrs = g.node.attrs;
          attrs["inverse"] = !attrs.b("inverse");
          return std::vector<Value>{g.program.emit(rotary, {g.dout[0], g.in(1)}, attrs)[0], Value{}};
        },
    .reference = ref_rotary,
    .cases = cases,
    .bound = {.ulp = 4},  // sine and cosine to 2 · 2⁻²⁴, two products, their sum
    .cost = [](const Node& n, const Program& p) { return elementwise_cost(n, p, 3); },
    .source =
        "Su et al. 2021 (arXiv 2104.09864); pairs as in HF apply_rotary_pos_emb; factor as HF "
        "attention_scaling (Peng et al. 2023, arXiv 2309.00071)",
};

}  // namespace op
}  // namespace lathe
