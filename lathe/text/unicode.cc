#include "lathe/text/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace lathe::unicode {
namespace {

#include "lathe/text/unicode_tables.inc"

constexpr uint32_t kReplacement = 0xFFFD;

template <size_t N, size_t P>
std::span<const uint32_t> parts(const uint32_t (&from)[N], const uint16_t (&where)[N + 1],
                                const uint32_t (&pool)[P], uint32_t cp) {
  const auto* at = std::lower_bound(std::begin(from), std::end(from), cp);
  if (at == std::end(from) || *at != cp) return {};
  const auto i = at - from;
  return {pool + where[i], static_cast<size_t>(where[i + 1] - where[i])};
}

bool is_ascii8(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return (word & 0x8080808080808080u) == 0;
}

}  // namespace

CharInfo info(uint32_t cp) {
  if (cp > 0x10FFFF) return {};
  const size_t block = kBlockOf[cp >> kBlockShift];
  return kRecords[kRecordOf[(block << kBlockShift) + (cp & ((1u << kBlockShift) - 1))]];
}

uint32_t lower(uint32_t cp) {
  const auto* at = std::lower_bound(std::begin(kLowerFrom), std::end(kLowerFrom), cp);
  return at != std::end(kLowerFrom) && *at == cp ? kLowerTo[at - kLowerFrom] : cp;
}

std::span<const uint32_t> decomposition(uint32_t cp) { return parts(kNfdFrom, kNfdAt, kNfdPool, cp); }

std::span<const uint32_t> compatibility_decomposition(uint32_t cp) {
  return parts(kNfkdFrom, kNfkdAt, kNfkdPool, cp);
}

uint32_t compose(uint32_t first, uint32_t second) {
  using namespace hangul;
  if (first - kLead < kLeads && second - kVowel < kVowels)
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTails == 0 && second - kTail - 1 < kTails - 1)
    return first + (second - kTail);
  const uint64_t pair = uint64_t{first} << 32 | second;
  const auto* at = std::lower_bound(std::begin(kPairs), std::end(kPairs), pair);
  return at != std::end(kPairs) && *at == pair ? kComposed[at - kPairs] : 0;
}

bool is_chinese(uint32_t cp) {
  if (cp < 0x3400) return false;
  return (cp >= 0x4E00 && cp <= 0x9FFF) || cp <= 0x4DBF || (cp >= 0xF900 && cp <= 0xFAFF) ||
         (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B81F) ||
         (cp >= 0x2B920 && cp <= 0x2CEAF) || (cp >= 0x2F800 && cp <= 0x2FA1F);
}

uint32_t decode(std::string_view text, size_t* at) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data()) + *at;
  if (p[0] < 0x80) return *at += 1, p[0];
  if (p[0] < 0xE0) return *at += 2, (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
  if (p[0] < 0xF0) return *at += 3, (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
  return *at += 4, (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

uint32_t decode_back(std::string_view text, size_t* at) {
  do {
    --*at;
  } while ((static_cast<uint8_t>(text[*at]) & 0xC0) == 0x80);
  size_t begin = *at;
  return decode(text, &begin);
}

void append_utf8(uint32_t cp, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (cp < 0x80) return put(cp);
  if (cp < 0x800) return put(0xC0 | cp >> 6), put(0x80 | (cp & 0x3F));
  if (cp < 0x10000) return put(0xE0 | cp >> 12), put(0x80 | (cp >> 6 & 0x3F)), put(0x80 | (cp & 0x3F));
  put(0xF0 | cp >> 18), put(0x80 | (cp >> 12 & 0x3F)), put(0x80 | (cp >> 6 & 0x3F)), put(0x80 | (cp & 0x3F));
}

size_t length(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

int sequence_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  // the second byte's range depends on the first
  const int wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < wanted; ++i) {
    const bool there = static_cast<size_t>(i) < s.size();
    if (!there || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return -i;
  }
  return wanted;
}

size_t find_invalid(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (i + 8 <= text.size() && is_ascii8(text.data() + i)) {
      i += 8;
      continue;
    }
    const int n = sequence_length(text.substr(i));
    if (n < 0) return i;
    i += static_cast<size_t>(n);
  }
  return std::string_view::npos;
}

std::string repair(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const int n = sequence_length(text.substr(i));
    if (n > 0) {
      out.append(text.substr(i, static_cast<size_t>(n)));
    } else {
      append_utf8(kReplacement, &out);
    }
    i += static_cast<size_t>(n > 0 ? n : -n);
  }
  return out;
}

}  // namespace lathe::unicode
