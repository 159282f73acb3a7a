#include "lathe/tokenizers/word_piece.h"

#include "lathe/text/unicode.h"

namespace lathe {

WordPiece::WordPiece(const std::vector<std::pair<std::string, int32_t>>& vocabulary, std::string_view prefix,
                     int32_t unk_id, uint32_t max_chars)
    : unk_id_(unk_id), max_chars_(max_chars) {
  for (const auto& [token, id] : vocabulary) {
    if (!token.empty()) trie_.insert(token, id);
  }
  continuation_ = trie_.node_of(prefix);
}

void WordPiece::split(std::string_view word, std::vector<Piece>* out) const {
  const size_t before = out->size();
  bool known = word.size() <= max_chars_ || unicode::length(word) <= max_chars_;
  for (size_t begin = 0; known && begin < word.size();) {
    uint32_t node = begin == 0 ? ByteTrie::kRoot : continuation_;
    Piece best{-1, static_cast<uint32_t>(begin), 0};
    for (size_t i = begin; i < word.size() && node != ByteTrie::kNowhere; ++i) {
      const ByteTrie::Edge* edge = trie_.find(node, static_cast<uint8_t>(word[i]));
      if (edge == nullptr) break;
      node = edge->to;
      if (edge->id >= 0) best = {edge->id, best.begin, static_cast<uint32_t>(i + 1)};
    }
    known = best.id >= 0;
    out->push_back(best);
    begin = best.end;
  }
  if (known) return;
  out->resize(before);
  out->push_back({unk_id_, 0, static_cast<uint32_t>(word.size())});
}

}  // namespace lathe
