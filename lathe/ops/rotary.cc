// Rotary positions: pairs of columns of queries and keys are turned by an angle that grows with the position.
#include "lathe/ops/rotary.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe {

std::vector<float> rotary_frequencies(int64_t width, double theta) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < width / 2; ++i)
    frequencies.push_back(
        static_cast<float>(std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(width))));
  return frequencies;
}

namespace op {
namespace {

std::vector<Type> infer(std::span<const Type> in, const Attrs& attrs) {
  const int64_t heads = attrs.i("heads");
  const bool fits = in.size() == 2 && in[0].shape.size() == 2 && in[1].shape == Shape{in[0].shape[0]} &&
                    in[1].dtype == DType::i32 && in[0].dtype != DType::i32 && heads > 0;
  if (!fits)
    fail(ErrorCode::kShape, "rotary: expected qkv[N,3C] positions[N]:i32, found {} {}", to_string(in[0]),
         in.size() > 1 ? to_string(in[1]) : "nothing");
  if (in[0].shape[1] % (6 * heads) != 0)
    fail(ErrorCode::kShape,
         "rotary: qkv has {} columns, expected a multiple of {}: three of {} heads of an even width",
         in[0].shape[1], 6 * heads, heads);
  return {in[0]};
}

void ref_rotary(Reference& r) {
  const int64_t heads = r.node.attrs.i("heads"), columns = r.cols(0) / 3, width = columns / heads;
  const std::vector<float> frequencies = rotary_frequencies(width, r.node.attrs.f("theta"));
  const double sign = r.node.attrs.b("inverse") ? -1 : 1;
  r.out[0] = r.in[0];  // v stays
  for (int64_t n = 0; n < r.rows(0); ++n)
    for (int64_t head = 0; head < 2 * heads; ++head)  // of q, then of k
      for (int64_t i = 0; i < width / 2; ++i) {
        const size_t at = static_cast<size_t>(n * 3 * columns + head * width + i);
        const size_t other = at + static_cast<size_t>(width / 2);
        // a product in f32, as transformers has it
        const double angle =
            static_cast<float>(r.in[1][static_cast<size_t>(n)]) * frequencies[static_cast<size_t>(i)];
        const double c = std::cos(angle), s = sign * std::sin(angle), a = r.in[0][at], b = r.in[0][other];
        r.out[0][at] = a * c - b * s;
        r.out[0][other] = b * c + a * s;
        // an angle that is not rounded to f32 differs by up to 2⁻²⁴ of itself
        r.magnitude[0][at] = r.magnitude[0][other] = (std::abs(a) + std::abs(b)) * (1 + std::abs(angle));
      }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, int64_t heads, int64_t width, std::vector<int32_t> positions,
                       double theta = 1e4, bool inverse = false) {
    const int64_t tokens = static_cast<int64_t>(positions.size());
    all.push_back({name,
                   {{tokens, 3 * heads * width}, {tokens}},
                   {{"heads", heads}, {"theta", theta}, {"inverse", inverse}},
                   {std::move(positions)},
                   2});
  };
  add("one token", 1, 2, {0});
  add("two rows", 2, 8, {0, 1, 2, 0, 1});
  add("inverse", 3, 12, {0, 1, 2, 3, 0, 1}, 1.6e5, true);
  add("width 64", 2, 64, {0, 1, 2, 3, 4, 5, 100, 511}, 1.6e5);
  add("far", 1, 32, {8191, 8190, 4097});
  std::vector<int32_t> many;
  for (int32_t i = 0; i < 300; ++i) many.push_back(i % 150);
  add("many tokens", 2, 24, many);
  return all;
}

}  // namespace

/// q and k of each head are turned by the position of their token; v stays.  qkv: as attention's.  Columns i
/// and i + D/2 of a head are a pair: (a, b) → (a cos φ − b sin φ, b cos φ + a sin φ), φ = position ·
/// theta^(−2i/D).  inverse: by −φ, which is the gradient.
const OpDef rotary{
    .name = "rotary",
    .signature = "qkv[N,3C] positions[N]:i32 -> y[N,3C]:qkv",
    .attrs = {{"heads", int64_t{1}}, {"theta", 1e4}, {"inverse", false}},
    .infer = infer,
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
    .source = "Su et al. 2021 (arXiv 2104.09864); pairs as in HF apply_rotary_pos_emb",
};

}  // namespace op
}  // namespace lathe
