#include "lathe/tokenizers/word_piece.h"

#include "lathe/core/error.h"
#include "lathe/tokenizers/unicode.h"

namespace lathe {

WordPiece::WordPiece(const std::vector<std::pair<std::string, int32_t>>& vocabulary, std::string_view prefix,
                     int32_t unk_id, uint32_t max_chars)
    : edges_(1024), unk_id_(unk_id), max_chars_(max_chars) {
  for (const auto& [token, id] : vocabulary) {
    if (token.empty()) continue;
    uint32_t node = kRoot;
    Edge* edge = nullptr;
    for (const char c : token) {
      edge = &insert(node, static_cast<uint8_t>(c));
      node = edge->to;
    }
    edge->id = id;
  }
  continuation_ = kRoot;
  for (const char c : prefix) {
    const Edge* edge = continuation_ == kNowhere ? nullptr : find(continuation_, static_cast<uint8_t>(c));
    continuation_ = edge != nullptr ? edge->to : kNowhere;
  }
}

size_t WordPiece::slot(uint32_t key) const {
  size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & (edges_.size() - 1);
  while (edges_[at].key != key && edges_[at].key != kFree) at = (at + 1) & (edges_.size() - 1);
  return at;
}

const WordPiece::Edge* WordPiece::find(uint32_t node, uint8_t byte) const {
  const uint32_t key = node << 8 | byte;
  const Edge& edge = edges_[slot(key)];
  return edge.key == key ? &edge : nullptr;
}

WordPiece::Edge& WordPiece::insert(uint32_t node, uint8_t byte) {
  if (2 * (used_ + 1) > edges_.size()) grow();
  const uint32_t key = node << 8 | byte;
  Edge& edge = edges_[slot(key)];
  if (edge.key == kFree) {
    // Node 2^24 - 1 would make kFree a key.
    if (nodes_ >= (1u << 24) - 1)
      fail(ErrorCode::kInvalidData, "vocabulary: too long; wants fewer than 2^24 trie nodes");
    edge = {key, nodes_++, -1};
    ++used_;
  }
  return edge;
}

void WordPiece::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  for (const Edge& edge : old) {
    if (edge.key != kFree) edges_[slot(edge.key)] = edge;
  }
}

void WordPiece::split(std::string_view word, std::vector<Piece>* out) const {
  const size_t before = out->size();
  bool known = word.size() <= max_chars_ || unicode::length(word) <= max_chars_;
  for (size_t begin = 0; known && begin < word.size();) {
    uint32_t node = begin == 0 ? kRoot : continuation_;
    Piece best{-1, static_cast<uint32_t>(begin), 0};
    for (size_t i = begin; i < word.size() && node != kNowhere; ++i) {
      const Edge* edge = find(node, static_cast<uint8_t>(word[i]));
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
