#include "lathe/tokenizers/byte_pairs.h"

#include <queue>

#include "lathe/core/error.h"

namespace lathe {
namespace {

uint64_t key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

/// A piece of the word while it is merged; those that were merged away have the id -1.
struct Symbol {
  int32_t id;
  uint32_t begin, end;
  int32_t before, after;  // neighbours; -1: none
};

/// Two neighbours that may merge, as they were when this was found.
struct Candidate {
  int32_t rank;
  uint32_t left;
  int32_t left_id, right_id, id;
  bool operator<(const Candidate& other) const {  // the lowest rank comes first out of a priority_queue
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

}  // namespace

BytePairs::BytePairs(const std::vector<std::pair<std::string, int32_t>>& vocabulary,
                     const std::vector<Merge>& merges, bool whole_words) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (const auto& [token, id] : vocabulary) ids.emplace(token, id);
  const auto id_of = [&](std::string_view token, const char* what) {
    const auto it = ids.find(token);
    if (it == ids.end())
      fail(ErrorCode::kInvalidData,
           "vocabulary: {} of {} bytes is no token; take vocabulary and merges of one model", what,
           token.size());
    return it->second;
  };
  byte_ids_.fill(-1);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool in_utf8 = byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4);
    if (in_utf8 || ids.contains({&c, 1}))
      byte_ids_[static_cast<size_t>(byte)] = id_of({&c, 1}, "a character");
  }
  int32_t rank = 0;
  for (const Merge& m : merges) {
    const std::string both = m.left + m.right;
    merges_.insert_or_assign(key(id_of(m.left, "a part of a merge"), id_of(m.right, "a part of a merge")),
                             Merged{rank++, id_of(both, "the result of a merge")});
  }
  std::vector<Piece> pieces;
  for (const auto& [token, id] : vocabulary) {
    if (token.empty()) continue;
    pieces.clear();
    if (!whole_words) merge(token, &pieces);
    if (whole_words || (pieces.size() == 1 && pieces[0].id == id)) whole_.emplace(token, id);
  }
}

const BytePairs::Merged* BytePairs::find(int32_t left, int32_t right) const {
  const auto it = merges_.find(key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void BytePairs::split(std::string_view word, std::vector<Piece>* out) const {
  thread_local std::string known;  // spares an allocation a word
  known.assign(word);
  const auto it = whole_.find(known);
  if (it != whole_.end()) return out->push_back({it->second, 0, static_cast<uint32_t>(word.size())});
  merge(word, out);
}

void BytePairs::merge(std::string_view word, std::vector<Piece>* out) const {
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  for (uint32_t i = 0; i < word.size(); ++i)
    symbols.push_back({byte_ids_[static_cast<uint8_t>(word[i])], i, i + 1, static_cast<int32_t>(i) - 1,
                       i + 1 < word.size() ? static_cast<int32_t>(i) + 1 : -1});
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t left) {
    if (left < 0) return;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    if (a.after < 0) return;
    const int32_t right_id = symbols[static_cast<size_t>(a.after)].id;
    if (const Merged* m = find(a.id, right_id))
      queue.push({m->rank, static_cast<uint32_t>(left), a.id, right_id, m->id});
  };
  for (size_t i = 0; i < symbols.size(); ++i) consider(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    if (left.id != top.left_id || left.after < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.after)];
    if (right.id != top.right_id) continue;
    left.id = top.id;
    left.end = right.end;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbols[static_cast<size_t>(left.after)].before = static_cast<int32_t>(top.left);
    consider(left.before);
    consider(static_cast<int32_t>(top.left));
  }
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].after) {
    const Symbol& s = symbols[static_cast<size_t>(i)];
    out->push_back({s.id, s.begin, s.end});
  }
}

}  // namespace lathe
