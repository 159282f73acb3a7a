#include "lathe/tokenizers/byte_pairs.h"

#include <fmt/format.h>

#include <queue>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"
#include "lathe/text/visible_text.h"
#include "lathe/tokenizers/byte_level.h"

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

/// Ranges as if each symbol began where the one before it ends, by sizes of what is written: for a byte that
/// is its code point of ByteLevel's alphabet.
void close_gaps(std::string_view word, bool bytes, std::vector<Piece>* symbols) {
  std::vector<uint32_t> byte_of;  // of each unit of what is written
  std::vector<uint32_t> units = {0};
  for (size_t i = 0; i < word.size(); ++i) {
    byte_of.resize(byte_of.size() + (bytes ? byte_level::written_size(static_cast<uint8_t>(word[i])) : 1),
                   static_cast<uint32_t>(i));
    units.push_back(static_cast<uint32_t>(byte_of.size()));
  }
  uint32_t begin = 0;
  for (Piece& s : *symbols) {
    const uint32_t end = begin + units[s.end] - units[s.begin];
    s.begin = byte_of[begin];
    s.end = byte_of[end - 1] + 1;
    begin = end;
  }
}

}  // namespace

BytePairs::BytePairs(const std::vector<std::pair<std::string, int32_t>>& vocabulary,
                     const std::vector<Merge>& merges, const BytePairRules& rules)
    : rules_(rules) {
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) ids.emplace(token, id);
  const auto id_of = [&](std::string_view token, const char* what) {
    const auto it = ids.find(token);
    if (it == ids.end())
      fail(ErrorCode::kInvalidData,
           "vocabulary: {}, '{}', is no token; take vocabulary and merges of one model", what,
           visible_line(token));
    return it->second;
  };
  byte_ids_.fill(-1);
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (rules.bytes) {
      const char c = static_cast<char>(byte);
      if (const auto it = ids.find({&c, 1}); it != ids.end()) byte_ids_[byte] = it->second;
    } else if (rules.byte_fallback) {
      byte_ids_[byte] = id_of(fmt::format("<0x{:02X}>", byte), "a byte that byte_fallback needs");
    }
  }
  for (const auto& [token, id] : vocabulary) {
    size_t end = 0;
    if (rules.bytes || token.empty()) continue;
    const uint32_t cp = unicode::decode(token, &end);
    if (end == token.size()) char_ids_.emplace(cp, id);
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
    if (!rules.whole_words) merge(token, &pieces);
    if (rules.whole_words || (pieces.size() == 1 && pieces[0].id == id)) whole_.emplace(token, id);
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

bool BytePairs::begin(std::string_view word, std::vector<Piece>* symbols) const {
  bool whole = true, unknown_before = false;
  const auto put = [&](int32_t id, size_t from, size_t to) {
    symbols->push_back({id, static_cast<uint32_t>(from), static_cast<uint32_t>(to)});
  };
  for (size_t at = 0, next = 0; at < word.size(); at = next) {
    int32_t id = -1;
    if (rules_.bytes) {
      id = byte_ids_[static_cast<uint8_t>(word[next++])];
    } else {
      const auto known = char_ids_.find(unicode::decode(word, &next));
      if (known != char_ids_.end()) id = known->second;
    }
    const bool fuses = unknown_before && rules_.fuse_unk;
    unknown_before = false;
    if (id >= 0) {
      put(id, at, next);
    } else if (!rules_.bytes && rules_.byte_fallback) {
      for (; at < next; ++at) put(byte_ids_[static_cast<uint8_t>(word[at])], at, at + 1);
    } else if (rules_.unk_id < 0) {
      whole = false;
    } else {
      unknown_before = true;
      if (fuses)
        symbols->back().end = static_cast<uint32_t>(next);
      else
        put(rules_.unk_id, at, next);
    }
  }
  return whole;
}

void BytePairs::merge(std::string_view word, std::vector<Piece>* out) const {
  thread_local std::vector<Piece> pieces;
  thread_local std::vector<Symbol> symbols;
  pieces.clear();
  symbols.clear();
  if (!begin(word, &pieces)) close_gaps(word, rules_.bytes, &pieces);
  for (const Piece& p : pieces) {
    const auto i = static_cast<int32_t>(symbols.size());
    symbols.push_back({p.id, p.begin, p.end, i - 1, i + 1 < std::ssize(pieces) ? i + 1 : -1});
  }
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
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].after) {
    const Symbol& s = symbols[static_cast<size_t>(i)];
    out->push_back({s.id, s.begin, s.end});
  }
}

}  // namespace lathe
