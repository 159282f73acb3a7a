#include "lathe/tokenizers/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace lathe {
namespace {

constexpr double kUnknownPenalty = 10;

/// The best way to an end within the word.
struct Node {
  double score;
  uint32_t begin;  // of its last piece
  int32_t id;      // of it; -1: nothing ends here yet
};

size_t char_length(char lead) {
  const auto c = static_cast<uint8_t>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

}  // namespace

Unigram::Unigram(const std::vector<ScoredToken>& vocabulary, int32_t unk_id, bool byte_fallback)
    : unk_id_(unk_id) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : vocabulary) {
    if (!token.empty()) trie_.insert(token, static_cast<int32_t>(scores_.size()));
    scores_.push_back(score);
    lowest = std::min(lowest, score);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  byte_ids_.fill(-1);
  for (size_t byte = 0; byte_fallback && byte < 256; ++byte)
    byte_ids_[byte] = trie_.id_of(fmt::format("<0x{:02X}>", byte));
}

void Unigram::split(std::string_view word, std::vector<Piece>* out) const {
  thread_local std::vector<Node> nodes;  // by end
  nodes.assign(word.size() + 1, {0, 0, -1});
  const auto reach = [&](size_t begin, size_t end, double score, int32_t id) {
    Node& node = nodes[end];
    if (node.id < 0 || score > node.score) node = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double score = nodes[begin].score;
    const size_t one = begin + char_length(word[begin]);
    bool known = false;  // the character by itself is a token
    uint32_t node = ByteTrie::kRoot;
    for (size_t i = begin; i < word.size(); ++i) {
      const ByteTrie::Edge* edge = trie_.find(node, static_cast<uint8_t>(word[i]));
      if (edge == nullptr) break;
      node = edge->to;
      if (edge->id < 0) continue;
      reach(begin, i + 1, score + scores_[static_cast<size_t>(edge->id)], edge->id);
      known = known || i + 1 == one;
    }
    if (!known) reach(begin, one, score + unknown_score_, unk_id_);
    begin = one;
  }
  const size_t first = out->size();
  for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = nodes[end].begin)
    out->push_back({nodes[end].id, nodes[end].begin, end});
  std::reverse(out->begin() + static_cast<std::ptrdiff_t>(first), out->end());
  // Unknown pieces, which are rare, are put together after the others' places.
  const auto unknown = [this](const Piece& p) { return p.id == unk_id_; };
  if (std::none_of(out->begin() + static_cast<std::ptrdiff_t>(first), out->end(), unknown)) return;
  const std::vector<Piece> pieces(out->begin() + static_cast<std::ptrdiff_t>(first), out->end());
  out->resize(first);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!unknown(pieces[i])) {
      out->push_back(pieces[i]);
      continue;
    }
    const uint32_t begin = pieces[i].begin;
    while (i + 1 < pieces.size() && unknown(pieces[i + 1])) ++i;
    put_unknown(word, begin, pieces[i].end, out);
  }
}

void Unigram::put_unknown(std::string_view word, uint32_t begin, uint32_t end,
                          std::vector<Piece>* out) const {
  const std::string_view text = word.substr(begin, end - begin);
  const int32_t whole = trie_.id_of(text);  // a token that costs more than its unknown characters
  const auto id_of = [this](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (whole < 0 && std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : text) out->push_back({id_of(c), begin, end});
    return;
  }
  out->push_back({whole >= 0 ? whole : unk_id_, begin, end});
}

}  // namespace lathe
