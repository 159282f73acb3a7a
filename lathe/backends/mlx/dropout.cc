#include "lathe/backends/mlx/dropout.h"

#include <algorithm>

#include "lathe/core/philox.h"

namespace lathe::mlx {
namespace {

/// A call's state is two numbers of 64 bits.
constexpr size_t kStateBytes = 16;
constexpr size_t kTogetherBytes = size_t{64} << 20;
/// Such states alive at once: what a fused kernel reads and writes, or operands and results of single
/// operations, as mlx_test finds them.
constexpr size_t kStates = 2, kStatesUnfused = 12;

bool has_site(const Node& node) { return node.attrs.contains("site"); }

/// Whether the decisions of two nodes differ only by their site.
bool alike(const Node& a, const Node& b, const Program& program) {
  if (a.op != b.op || a.in.size() < 3 || program.type(a.out[0]) != program.type(b.out[0])) return false;
  if (!std::equal(a.in.end() - 3, a.in.end(), b.in.end() - 3)) return false;
  return std::ranges::equal(a.attrs, b.attrs,
                            [](const auto& x, const auto& y) { return x.first == "site" || x == y; });
}

/// The sites whose masks are made together with that of `node`, whose own takes `calls`.
std::vector<int64_t> sites_with(const Node& node, const Program& program, size_t calls) {
  std::vector<int64_t> sites;
  for (const Node& other : program.nodes())
    if (has_site(other) && alike(node, other, program) &&
        std::ranges::find(sites, other.attrs.i("site")) == sites.end())
      sites.push_back(other.attrs.i("site"));
  const size_t most = std::max<size_t>(1, kTogetherBytes / kStateBytes / std::max<size_t>(1, calls));
  const size_t mine = static_cast<size_t>(std::ranges::find(sites, node.attrs.i("site")) - sites.begin());
  const auto begin = sites.begin() + static_cast<long>(mine / most * most);
  return {begin, begin + static_cast<long>(std::min(most, static_cast<size_t>(sites.end() - begin)))};
}

mx::array word(uint64_t x) { return mx::array(x, mx::uint64); }
mx::array wide(const mx::array& x) { return mx::astype(x, mx::uint64); }
mx::array shl(const mx::array& x, uint64_t bits) { return mx::left_shift(x, word(bits)); }
mx::array shr(const mx::array& x, uint64_t bits) { return mx::right_shift(x, word(bits)); }
/// Of the two numbers in the last axis, the first from a and the second from b.
mx::array chosen(const mx::array& a, const mx::array& b) { return mx::where(mx::array({true, false}), a, b); }
/// Number i of the two, in an axis of its own.
mx::array number_of(const mx::array& x, int i) {
  mx::Shape begin(x.ndim(), 0), end = x.shape();
  begin.back() = i, end.back() = i + 1;
  return mx::slice(x, begin, end);
}

/// Philox4x32-7.  The last axis of an array holds the numbers c0 · 2³² + c1 and c2 · 2³² + c3, for which a
/// round is the same: new = upper half of the other · multiplier ^ lower half · 2³² ^ key · 2³².  MLX fuses
/// what is eleven operations deep, to one result.  So a kernel makes three rounds, of its own number and of
/// the other one, too.
class Philox {
 public:
  struct Numbers {
    mx::array own, other;
  };
  explicit Philox(const mx::array& keys) : keys_(keys) {}

  /// [round, 2] · 2³²
  static constexpr int kRounds = 7;
  static mx::array keys(const mx::array& rng) {
    std::vector<uint32_t> steps;
    for (uint32_t r = 0; r < kRounds; ++r)
      for (const uint32_t step : {0x9E3779B9u, 0xBB67AE85u}) steps.push_back(r * step);
    const mx::array all(steps.data(), {kRounds, 2}, mx::uint32);
    return shl(wide(mx::add(mx::view(rng, mx::uint32), all)), 32);
  }

  /// The numbers after the first round, from their four halves.
  Numbers first(const mx::array& c0, const mx::array& c1, const mx::array& c2, const mx::array& c3) {
    return advance({chosen(c2, c0), chosen(c0, c2)}, {shl(chosen(c1, c3), 32), shl(chosen(c3, c1), 32)});
  }
  Numbers next(const Numbers& x) {
    return advance({shr(x.other, 32), shr(x.own, 32)}, {shl(x.own, 32), shl(x.other, 32)});
  }
  /// What one kernel has made, for the next.
  static Numbers again(const Numbers& x) { return {x.own, chosen(number_of(x.own, 1), number_of(x.own, 0))}; }

 private:
  Numbers advance(const Numbers& upper, const Numbers& lower) {
    const auto key = [&](int half) {
      return mx::reshape(mx::slice(keys_, {round_, half}, {round_ + 1, half + 1}), {1});
    };
    const mx::array a = word(0xCD9E8D57u), b = word(0xD2511F53u);
    const auto mixed = [](const mx::array& multiplier, const mx::array& up, const mx::array& low,
                          const mx::array& k) {
      return mx::bitwise_xor(mx::multiply(multiplier, up), mx::bitwise_xor(low, k));
    };
    const Numbers result{mixed(chosen(a, b), upper.own, lower.own, chosen(key(0), key(1))),
                         mixed(chosen(b, a), upper.other, lower.other, chosen(key(1), key(0)))};
    ++round_;
    return result;
  }

  const mx::array keys_;
  int round_ = 0;
};

/// Four decisions of a number, each in a byte: u32.  In the order of memory they are the upper number's lower
/// and upper 16 bits, then the lower's.
mx::array four_kept(const mx::array& x, uint32_t threshold) {
  const auto bit = [&](uint64_t from, uint32_t to) {
    const mx::array bits = mx::bitwise_and(shr(x, from), word(0xffff));
    return mx::where(mx::greater_equal(bits, word(threshold)), mx::array(to, mx::uint32),
                     mx::array(0u, mx::uint32));
  };
  return mx::bitwise_or(mx::bitwise_or(bit(32, 1), bit(48, 1u << 8)),
                        mx::bitwise_or(bit(0, 1u << 16), bit(16, 1u << 24)));
}

/// Masks [sites, .., cols].
mx::array masks(const Call& c, const std::vector<int64_t>& sites, int cols, const mx::array& position,
                const mx::array& sample, const mx::array& rng) {
  const int calls = (cols + 7) / 8, count = static_cast<int>(sites.size());
  mx::Shape shape = mx::broadcast_shapes(position.shape(), sample.shape());
  mx::Shape of_sites(shape.size() + 2, 1);
  of_sites[0] = count;
  std::vector<uint64_t> site_words;
  for (const int64_t site : sites) site_words.push_back(static_cast<uint32_t>(site));
  const mx::array call = mx::reshape(c.constants.range(calls, mx::uint64), {calls, 1});
  const mx::array keys =
      c.shared.get(fmt::format("philox keys {}", rng.id()), [&] { return Philox::keys(rng); });
  Philox philox(keys);
  Philox::Numbers x =
      philox.first(call, mx::expand_dims(wide(position), -1), mx::expand_dims(wide(sample), -1),
                   mx::array(site_words.data(), of_sites, mx::uint64));
  for (int round = 1; round < Philox::kRounds; ++round)
    x = philox.next(round % 3 == 0 ? Philox::again(x) : x);
  const mx::array bytes = mx::view(four_kept(x.own, dropout_threshold(c.node.attrs.f("p"))), mx::bool_);
  shape.insert(shape.begin(), count);
  shape.back() = 8 * calls;
  mx::Shape end = shape;
  end.back() = cols;
  return mx::slice(mx::reshape(bytes, shape), mx::Shape(shape.size(), 0), end);
}

}  // namespace

mx::array kept(const Call& c, int cols, const mx::array& position, const mx::array& sample,
               const mx::array& rng) {
  const auto name_of = [&](int64_t site) {
    return fmt::format("kept {} {} {} {} {}", site, c.node.attrs.f("p"), cols, position.size(),
                       sample.size());
  };
  const int64_t mine = c.node.attrs.i("site");
  return c.shared.get(name_of(mine), [&] {
    const mx::Shape shape = mx::broadcast_shapes(position.shape(), sample.shape());
    size_t calls = static_cast<size_t>((cols + 7) / 8);
    for (const int n : shape) calls *= static_cast<size_t>(n);
    const std::vector<int64_t> sites = sites_with(c.node, c.program, calls);
    const mx::array all = masks(c, sites, cols, position, sample, rng);
    std::optional<mx::array> found;
    for (int i = 0; i < static_cast<int>(sites.size()); ++i) {
      mx::Shape begin(all.ndim(), 0), end = all.shape();
      begin[0] = i, end[0] = i + 1;
      const mx::array one = mx::squeeze(mx::slice(all, begin, end), 0);
      if (sites[static_cast<size_t>(i)] == mine)
        found = one;
      else
        c.shared.put(name_of(sites[static_cast<size_t>(i)]), one);
    }
    return *found;
  });
}

mx::array drop(const mx::array& x, const mx::array& kept, double p) {
  return mx::where(kept, mx::multiply(x, number(dropout_scale(p))), number(0));
}

namespace {

/// The indices of the first and the last node that take the masks of these sites.
std::pair<int, int> users(const Program& program, const std::vector<int64_t>& sites) {
  int first = -1, last = 0;
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& other = program.nodes()[n];
    if (!has_site(other) || std::ranges::find(sites, other.attrs.i("site")) == sites.end()) continue;
    last = static_cast<int>(n);
    if (first < 0) first = last;
  }
  return {first, last};
}

bool is_at(int index, const Node& node, const Program& program) {
  return index >= 0 && &program.nodes()[static_cast<size_t>(index)] == &node;
}

}  // namespace

size_t deciding_bytes(const Node& node, const Program& program, size_t calls) {
  const std::vector<int64_t> sites = sites_with(node, program, calls);
  if (!is_at(users(program, sites).first, node, program)) return 0;
  const bool fused = compile_mode() == mx::CompileMode::enabled;
  return sites.size() * calls * kStateBytes * (fused ? kStates : kStatesUnfused);
}

Held masks_of(const Node& node, const Program& program, size_t calls) {
  const std::vector<int64_t> sites = sites_with(node, program, calls);
  const auto [first, last] = users(program, sites);
  if (!is_at(first, node, program)) return {};
  return {sites.size() * calls * 8, first, last};
}

}  // namespace lathe::mlx
