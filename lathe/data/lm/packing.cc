#include "lathe/data/lm/packing.h"

#include <algorithm>
#include <deque>
#include <map>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using Pieces = std::vector<PackedPiece>;

constexpr int64_t kSamplesAtATime = 1000;  // datasets.Dataset.map's batch_size

int64_t size_of(const PackedPiece& piece) { return piece.end - piece.begin; }

/// The pieces of samples [first, last) that are to be placed.
Pieces pieces_of(std::span<const int64_t> lengths, int64_t first, int64_t last, int64_t length, bool splits) {
  Pieces pieces;
  for (int64_t sample = first; sample < last; ++sample) {
    const int64_t tokens = lengths[static_cast<size_t>(sample)];
    const int64_t used = splits ? tokens : std::min(tokens, length);
    for (int64_t begin = 0; begin < used; begin += length)
      pieces.push_back({sample, begin, std::min(begin + length, used)});
  }
  return pieces;
}

/// Best fit decreasing.
void place_best(Pieces pieces, int64_t length, std::vector<Pieces>& packed) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const PackedPiece& a, const PackedPiece& b) { return size_of(a) > size_of(b); });
  std::map<int64_t, std::deque<size_t>> by_room;  // of each room the samples that have it, the oldest first
  for (const PackedPiece& piece : pieces) {
    const auto fit = by_room.lower_bound(size_of(piece));
    size_t into = packed.size();
    int64_t room = length;
    if (fit == by_room.end()) {
      packed.emplace_back();
    } else {
      into = fit->second.front();
      room = fit->first;
      fit->second.pop_front();
      if (fit->second.empty()) by_room.erase(fit);
    }
    packed[into].push_back(piece);
    if (room > size_of(piece)) by_room[room - size_of(piece)].push_back(into);
  }
}

void place_in_order(std::span<const int64_t> lengths, int64_t first, int64_t last, int64_t length,
                    std::vector<Pieces>& packed) {
  int64_t room = 0;
  for (int64_t sample = first; sample < last; ++sample)
    for (int64_t begin = 0, tokens = lengths[static_cast<size_t>(sample)]; begin < tokens;) {
      if (room == 0) {
        packed.emplace_back();
        room = length;
      }
      const int64_t end = std::min(tokens, begin + room);
      packed.back().push_back({sample, begin, end});
      room -= end - begin;
      begin = end;
    }
}

}  // namespace

std::vector<std::vector<PackedPiece>> pack_samples(std::span<const int64_t> lengths, int64_t length,
                                                   PackingStrategy strategy) {
  if (length < 1) fail(ErrorCode::kUsage, "packing: found a length of {} tokens, expected 1 or more", length);
  std::vector<Pieces> packed;
  for (int64_t first = 0; first < std::ssize(lengths); first += kSamplesAtATime) {
    const int64_t last = std::min(first + kSamplesAtATime, static_cast<int64_t>(lengths.size()));
    if (strategy == PackingStrategy::kWrapped)
      place_in_order(lengths, first, last, length, packed);
    else
      place_best(pieces_of(lengths, first, last, length, strategy == PackingStrategy::kBfdSplit), length,
                 packed);
  }
  return packed;
}

}  // namespace lathe
