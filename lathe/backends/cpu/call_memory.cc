#include "lathe/backends/cpu/call_memory.h"

#include <algorithm>
#include <functional>

namespace lathe::cpu {
namespace {

constexpr size_t kCold = 64'000'000;
constexpr std::less<const std::byte*> kBefore;

/// The part of `pieces` that lies outside `other`.
Touched without(const Touched& pieces, std::span<const std::byte> other) {
  Touched left;
  for (const auto& piece : pieces) {
    const std::byte *begin = piece.data(), *end = begin + piece.size();
    const std::byte* cut_begin = std::clamp(other.data(), begin, end, kBefore);
    const std::byte* cut_end = std::clamp(other.data() + other.size(), begin, end, kBefore);
    if (cut_begin != begin) left.push_back({begin, cut_begin});
    if (cut_end != end) left.push_back({std::max(cut_begin, cut_end, kBefore), end});
  }
  return left;
}

size_t bytes_of(const Touched& pieces) {
  size_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

bool meet(const Touched& a, const Touched& b) {
  const auto meets = [](std::span<const std::byte> x, std::span<const std::byte> y) {
    return !x.empty() && !y.empty() && kBefore(x.data(), y.data() + y.size()) &&
           kBefore(y.data(), x.data() + x.size());
  };
  return std::ranges::any_of(
      a, [&](const auto& x) { return std::ranges::any_of(b, [&](const auto& y) { return meets(x, y); }); });
}

Touched untouched(std::span<const Touched> calls, std::span<const std::byte> memory) {
  Touched left{memory};
  for (const Touched& call : calls)
    for (const auto& other : call) left = without(left, other);
  return left;
}

int untouched_since(int node, const Program& program, size_t bytes) {
  for (int first = node; first > 0; --first) {
    const Node& before = program.nodes()[static_cast<size_t>(first) - 1];
    size_t touched = 0;
    for (const std::vector<int>* ids : {&before.in, &before.out})
      for (const int id : *ids) touched += id < 0 ? 0 : bytes_of(program.type(id));
    if (touched > bytes) return first;
    bytes -= touched;
  }
  return 0;
}

bool is_cold(std::span<const Touched> calls, size_t at, std::span<const std::byte> memory) {
  Touched left{memory};  // not touched since
  size_t since = 0;
  for (size_t back = 1; back < calls.size() && since < kCold; ++back) {
    const Touched& call = calls[(at + calls.size() - back) % calls.size()];
    for (const auto& other : call) left = without(left, other);
    if (2 * bytes_of(left) <= memory.size()) return false;
    since += bytes_of(call);
  }
  return since >= kCold;
}

}  // namespace lathe::cpu
