#include "lathe/tokenizers/windows.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {
namespace {

/// Windows of `length` tokens over n; neighbours share `stride`.  Length 0 keeps nothing and overflows
/// everything.
std::vector<Window> slide(size_t n, size_t length, size_t stride, bool left) {
  if (length >= n) return {{0, n}};
  if (length == 0) return {{0, 0}, {0, n}};
  if (stride >= length) {
    fail(ErrorCode::kUsage,
         "truncation: stride {} leaves no progress in windows of {} tokens (special tokens taken off); "
         "expected "
         "a "
         "smaller stride or a larger max_length",
         stride, length);
  }
  std::vector<Window> out;
  for (size_t begin = 0; out.empty() || out.back().end < n; begin += length - stride)
    out.push_back({begin, std::min(begin + length, n)});
  if (left)
    for (Window& w : out) w = {n - w.end, n - w.begin};
  return out;
}

/// How many tokens of two texts stay under kLongestFirst: the shorter one whole if it fits into half the
/// room, else half and half, the odd token for the longer one.
std::pair<size_t, size_t> share(size_t first, size_t second, size_t room) {
  size_t shorter = std::min(first, second);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace

Windows truncate(size_t n_first, std::ptrdiff_t n_second, size_t room, const EncodeOptions& options,
                 bool left) {
  const bool pair = n_second >= 0;
  const size_t second = pair ? static_cast<size_t>(n_second) : 0;
  const auto stride = static_cast<size_t>(options.stride);
  const size_t total = n_first + second;
  size_t keep_first = n_first, keep_second = second;
  if (total > room && room == 0) {
    keep_first = keep_second = 0;
  } else if (total > room && options.truncation == Truncation::kLongestFirst) {
    if (pair) {
      std::tie(keep_first, keep_second) = share(n_first, second, room);
    } else {
      keep_first = room;
    }
  } else if (total > room) {
    const bool cut_first = options.truncation == Truncation::kOnlyFirst;
    if (!cut_first && !pair) {
      fail(ErrorCode::kUsage,
           "truncation only_second: there is no second text; expected only_first or longest_first");
    }
    size_t& keep = cut_first ? keep_first : keep_second;
    const size_t excess = total - room;
    if (keep <= excess) {
      fail(
          ErrorCode::kUsage,
          "truncation {}: that text has {} tokens, {} too many stand in all; expected a larger max_length or "
          "longest_first",
          cut_first ? "only_first" : "only_second", keep, excess);
    }
    keep -= excess;
  }
  Windows out;
  out.first = slide(n_first, keep_first, stride, left);
  if (pair) out.second = slide(second, keep_second, stride, left);
  return out;
}

}  // namespace lathe
