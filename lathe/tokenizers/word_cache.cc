#include "lathe/tokenizers/word_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>

namespace lathe {
namespace {

constexpr size_t kEntries = 8192, kLongestWord = 32, kMostPieces = 6;

struct Entry {
  uint64_t owner = 0;  // 0: none
  uint64_t hash = 0;
  uint8_t length = 0, count = 0;
  std::array<char, kLongestWord> word;
  std::array<Piece, kMostPieces> pieces;
};

}  // namespace

WordCache::WordCache() {
  static std::atomic<uint64_t> last{0};
  owner_ = ++last;
}

void WordCache::split(const WordModel& model, std::string_view word, std::vector<Piece>* out) const {
  if (word.size() > kLongestWord) return model.split(word, out);
  thread_local std::vector<Entry> table(kEntries);
  const uint64_t hash = std::hash<std::string_view>()(word);
  Entry& entry = table[(hash ^ owner_ * 0x9E3779B97F4A7C15u) % kEntries];
  if (entry.owner == owner_ && entry.hash == hash && entry.length == word.size() &&
      std::memcmp(entry.word.data(), word.data(), word.size()) == 0) {
    out->insert(out->end(), entry.pieces.begin(), entry.pieces.begin() + entry.count);
    return;
  }
  const size_t first = out->size();
  model.split(word, out);
  if (out->size() - first > kMostPieces) return;
  entry.owner = owner_, entry.hash = hash;
  entry.length = static_cast<uint8_t>(word.size());
  entry.count = static_cast<uint8_t>(out->size() - first);
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(out->begin() + static_cast<std::ptrdiff_t>(first), out->end(), entry.pieces.begin());
}

}  // namespace lathe
