// Attention over packed rows.  Only here are rows padded: to Call::longest tokens, [B, H, L, D].
#include <cmath>

#include "lathe/backends/mlx/dropout.h"
#include "lathe/core/ceil_div.h"
#include "lathe/ops/attention.h"

namespace lathe::mlx {
namespace {

/// What a node does, with its inputs by what they mean.
struct Attention {
  const Call& c;
  const mx::array &qkv, &cu, &row_ids, &rng;
  int tokens = static_cast<int>(qkv.shape(0)), rows = static_cast<int>(row_ids.size());
  int heads = static_cast<int>(c.node.attrs.i("heads")), width = static_cast<int>(qkv.shape(1)) / 3 / heads;
  int length = c.longest;
  mx::Dtype dtype = qkv.dtype();

  double scale() const {
    const double s = c.node.attrs.f("scale");
    return s == 0 ? 1 / std::sqrt(static_cast<double>(width)) : s;
  }
  mx::array starts() const { return mx::slice(cu, {0}, {rows}); }
  mx::array ends() const { return mx::slice(cu, {1}, {rows + 1}); }

  /// What all attentions over these rows need.
  template <typename Make>
  mx::array of_rows(const char* name, Make make) const {
    return c.shared.get(fmt::format("{} {}", name, cu.id()), make);
  }
  /// Whether a place of a padded row holds a token: bool [B, L].
  mx::array valid() const {
    return of_rows("valid", [&] {
      return mx::less(c.constants.range(length), mx::reshape(mx::subtract(ends(), starts()), {rows, 1}));
    });
  }
  /// Whether a query may see a key: a token, and within the window.  bool [B, 1, L, L], or what broadcasts to
  /// it.
  mx::array seen() const {
    const mx::array keys = mx::reshape(valid(), {rows, 1, 1, length});
    const int64_t window = c.node.attrs.i("window");
    if (window == 0 || window >= length) return keys;
    const mx::array place = mx::arange(length);
    const mx::array distance = mx::abs(mx::subtract(mx::reshape(place, {length, 1}), place));
    return mx::logical_and(keys, mx::less_equal(distance, mx::array(static_cast<int>(window))));
  }
  /// The token of every place: [B · L].  Where there is none, the row's last: one of another row that is not
  /// finite would become NaN here, times the probability 0.
  mx::array token_of() const {
    return of_rows("token_of", [&] {
      const mx::array token = mx::add(mx::reshape(starts(), {rows, 1}), c.constants.range(length));
      const mx::array last = mx::reshape(mx::subtract(ends(), mx::array(1)), {rows, 1});
      return mx::flatten(mx::maximum(mx::minimum(token, last), mx::array(0)));
    });
  }
  /// The place of every token, 0 for tokens after the last row: [N].
  mx::array place_of() const {
    return of_rows("place_of", [&] {
      const mx::array token = c.constants.range(tokens);
      const mx::array ended = mx::less_equal(mx::reshape(ends(), {1, rows}), mx::reshape(token, {tokens, 1}));
      const mx::array row = mx::sum(mx::astype(ended, mx::int32), 1);
      const mx::array place =
          mx::add(mx::multiply(row, mx::array(length)), mx::subtract(token, mx::take(cu, row, 0)));
      return mx::where(within(), place, mx::array(0));
    });
  }
  /// Whether a token lies in a row: bool [N].
  mx::array within() const {
    return of_rows("within",
                   [&] { return mx::less(c.constants.range(tokens), mx::slice(cu, {rows}, {rows + 1})); });
  }

  /// [N, parts · C] → one [B, H, L, D] per part
  Arrays padded(const mx::array& x, int parts) const {
    const mx::array places = mx::reshape(mx::take(x, token_of(), 0), {rows, length, parts, heads, width});
    Arrays out;
    for (const mx::array& part : mx::split(places, parts, 2))
      out.push_back(mx::transpose(mx::reshape(part, {rows, length, heads, width}), {0, 2, 1, 3}));
    return out;
  }
  /// One [B, H, L, D] per part → [N, parts · C]; 0 for tokens after the last row
  mx::array packed(const Arrays& parts) const {
    Arrays places;
    for (const mx::array& part : parts)
      places.push_back(mx::reshape(mx::transpose(part, {0, 2, 1, 3}), {rows * length, heads * width}));
    const mx::array x = mx::take(mx::concatenate(places, 1), place_of(), 0);
    return mx::where(mx::reshape(within(), {tokens, 1}), x, mx::array(0, x.dtype()));
  }
  /// [H, N] → [B, H, L, 1]
  mx::array padded_heads(const mx::array& x) const {
    const mx::array places = mx::reshape(mx::take(x, token_of(), 1), {heads, rows, length, 1});
    return mx::transpose(places, {1, 0, 2, 3});
  }
  /// [B, H, L, 1] → [H, N]
  mx::array packed_heads(const mx::array& x) const {
    const mx::array places = mx::reshape(mx::transpose(x, {1, 0, 2, 3}), {heads, rows * length});
    return mx::where(within(), mx::take(places, place_of(), 1), number(0));
  }

  /// a · bᵀ over the width, with sums and result in f32: [B, H, L, L]
  static mx::array products(const mx::array& a, const mx::array& b) {
    return mx::matmul(f32(a), mx::transpose(f32(b), {0, 1, 3, 2}));
  }
  mx::array scores(const mx::array& q, const mx::array& k) const {
    return mx::multiply(products(q, k), number(scale()));
  }
  /// Applies dropout to what belongs to the probabilities.
  mx::array dropped(const mx::array& x) const {
    const double p = c.node.attrs.f("p");
    if (p == 0) return x;
    const mx::array head = mx::reshape(c.constants.range(heads, mx::uint32), {1, heads, 1, 1});
    const mx::array query = mx::reshape(c.constants.range(length, mx::uint32), {1, 1, length, 1});
    const mx::array position = mx::bitwise_or(mx::left_shift(head, mx::array(16u, mx::uint32)), query);
    const mx::array sample = mx::reshape(mx::view(row_ids, mx::uint32), {rows, 1, 1, 1});
    return drop(x, kept(c, length, position, sample, rng), p);
  }
};

Arrays run_attention(const Call& c) {
  const Attention a{c, c[0], c[1], c[2], c[3]};
  const Arrays qkv = a.padded(a.qkv, 3);
  const mx::array scores = mx::where(a.seen(), a.scores(qkv[0], qkv[1]), number(kNoScore));
  const mx::array most = mx::max(scores, -1, true);
  const mx::array sum = mx::sum(mx::exp(mx::subtract(scores, most)), -1, true);
  const mx::array lse = mx::add(most, mx::log(sum));
  const mx::array p = a.dropped(mx::divide(mx::exp(mx::subtract(scores, most)), sum));
  const mx::array y = mx::matmul(mx::astype(p, a.dtype), qkv[2]);
  return {a.packed({y}), a.packed_heads(lse)};
}

Arrays run_attention_bwd(const Call& c) {
  const Attention a{c, c[1], c[4], c[5], c[6]};
  const Arrays qkv = a.padded(a.qkv, 3);
  const mx::array dy = a.padded(c[0], 1)[0], y = a.padded(c[2], 1)[0], lse = a.padded_heads(c[3]);
  const mx::array both = mx::logical_and(a.seen(), mx::reshape(a.valid(), {a.rows, 1, a.length, 1}));
  const mx::array p = mx::where(both, mx::exp(mx::subtract(a.scores(qkv[0], qkv[1]), lse)), number(0));
  const mx::array delta = mx::sum(mx::multiply(f32(dy), f32(y)), -1, true);
  const mx::array dp = a.dropped(Attention::products(dy, qkv[2]));
  const mx::array ds =
      mx::astype(mx::multiply(mx::multiply(p, mx::subtract(dp, delta)), number(a.scale())), a.dtype);
  const auto across = [](const mx::array& x) { return mx::transpose(x, {0, 1, 3, 2}); };
  const mx::array dq = mx::matmul(ds, qkv[1]), dk = mx::matmul(across(ds), qkv[0]);
  const mx::array dv = mx::matmul(across(mx::astype(a.dropped(p), a.dtype)), dy);
  return {a.packed({dq, dk, dv})};
}

/// The bounds of the rows must come from the host, which reads the longest off them.
template <int kCu>
bool host_knows_rows(const Node& node, const Program& program) {
  return program.values()[static_cast<size_t>(node.in[kCu])].kind == ValueKind::kInput;
}

/// Of the padded rows only the longest is known when a batch is there.  Where nobody says how long rows are,
/// it is taken to be twice the mean.
struct Padding {
  size_t rows, heads, length;
};
template <int kQkv, int kRows>
Padding padding_of(const Node& node, const Program& program) {
  const size_t rows = static_cast<size_t>(std::max<int64_t>(1, program.type(node.in[kRows]).shape[0]));
  const size_t tokens = static_cast<size_t>(program.type(node.in[kQkv]).shape[0]);
  const size_t known = static_cast<size_t>(program.longest_row());
  const size_t longest = std::min(tokens, known > 0 ? known : 2 * ceil_div(tokens, rows));
  return {rows, static_cast<size_t>(node.attrs.i("heads")),
          static_cast<size_t>(length_bucket(static_cast<int64_t>(longest)))};
}
size_t calls_of(const Padding& p) { return p.rows * p.heads * p.length * ((p.length + 7) / 8); }

/// kSquares: how many [B, H, L, L] of f32 are alive at once, as mlx_test finds them, with ops fused and not;
/// two more with dropout.  In addition twelve of the padded rows: q, k, v, y, dy and three gradients, and
/// four of them in f32.  While masks are decided, what they are for may be there: one square.
template <int kQkv, int kRows, int kSquares>
size_t padded_bytes(const Node& node, const Program& program) {
  const Padding p = padding_of<kQkv, kRows>(node, program);
  const size_t square = p.rows * p.heads * p.length * p.length * sizeof(float);
  const bool drops = node.attrs.f("p") != 0;
  const size_t deciding = drops ? square + deciding_bytes(node, program, calls_of(p)) : 0;
  const size_t computing =
      (kSquares + (drops ? 2 : 0)) * square +
      4 * p.rows * p.length * static_cast<size_t>(program.type(node.in[kQkv]).shape.back()) * sizeof(float);
  return std::max(deciding, computing);
}
template <int kQkv, int kRows>
Held padded_masks(const Node& node, const Program& program) {
  if (node.attrs.f("p") == 0) return {};
  return masks_of(node, program, calls_of(padding_of<kQkv, kRows>(node, program)));
}

}  // namespace

int64_t length_bucket(int64_t longest) {
  int64_t bucket = 32, step = 32;
  while (bucket < longest) {
    if (bucket >= 128) step = bucket & (bucket - 1) ? bucket / 3 : bucket / 2;
    bucket += step;
  }
  return bucket;
}

namespace {
template <int kBounds>
bool takes(const Node& node, const Program& program) {
  return op::is_encoders(node.attrs) && host_knows_rows<kBounds>(node, program);
}
}  // namespace

std::vector<Entry> attention_entries() {
  return {
      {&op::attention, "padded", run_attention, takes<1>, padded_bytes<0, 2, 5>, padded_masks<0, 2>},
      {&op::attention_bwd, "padded", run_attention_bwd, takes<4>, padded_bytes<1, 5, 7>, padded_masks<1, 5>}};
}

}  // namespace lathe::mlx
