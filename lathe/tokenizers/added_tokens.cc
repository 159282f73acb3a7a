#include "lathe/tokenizers/added_tokens.h"

#include <algorithm>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

bool has(uint32_t cp, unicode::CharFlag flag) { return (unicode::info(cp).flags & flag) != 0; }

bool ends_with_word(std::string_view text) {
  size_t at = text.size();
  return at > 0 && has(unicode::decode_back(text, &at), unicode::kWord);
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && has(unicode::decode(text, &at), unicode::kWord);
}

/// Where the white space at the end of text begins.
size_t trailing_space(std::string_view text) {
  size_t at = text.size();
  while (at > 0) {
    size_t next = at;
    if (!has(unicode::decode_back(text, &next), unicode::kSpace)) break;
    at = next;
  }
  return at;
}

/// Where the white space at the front of text ends.
size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t next = at;
    if (!has(unicode::decode(text, &next), unicode::kSpace)) break;
    at = next;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& e) { return e.pattern.empty(); });
  // Of equal texts a trie keeps the last.
  for (size_t i = entries_.size(); i-- > 0;) {
    patterns_.insert(entries_[i].pattern, static_cast<int32_t>(i));
    begins_[static_cast<uint8_t>(entries_[i].pattern[0])] = true;
  }
}

const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(std::string_view rest) const {
  const Entry* longest = nullptr;
  uint32_t node = ByteTrie::kRoot;
  for (const char c : rest) {
    const ByteTrie::Edge* edge = patterns_.find(node, static_cast<uint8_t>(c));
    if (edge == nullptr) break;
    if (edge->id >= 0) longest = &entries_[static_cast<size_t>(edge->id)];
    node = edge->to;
  }
  return longest;
}

void AddedTokenMatcher::cut(std::string_view text, bool split_special, std::vector<Match>* out) const {
  size_t done = 0;       // everything before it is in *out
  size_t space_end = 0;  // where the white space ends that a token took last
  for (size_t at = 0; at < text.size();) {
    const bool begins = begins_[static_cast<uint8_t>(text[at])];
    const Entry* entry = begins ? longest_at(text.substr(at)) : nullptr;
    if (entry == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + entry->pattern.size();
    at = end;
    const AddedToken& token = entry->token;
    if (token.special && split_special) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip && begin > done) begin = done + trailing_space(text.substr(done, begin - done));
    if (token.lstrip && begin < done) begin = done;
    if (token.rstrip) end = space_end = end < space_end ? space_end : end + leading_space(text.substr(end));
    if (begin >= end) continue;  // the token before took all that its lstrip left
    if (done < begin) out->push_back({nullptr, done, begin});
    out->push_back({&token, begin, end});
    done = end;
  }
  if (done != text.size()) out->push_back({nullptr, done, text.size()});
}

}  // namespace lathe
