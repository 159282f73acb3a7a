#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lathe::unicode {

/// Hangul syllables and the jamo they are composed of (The Unicode Standard 3.12).
namespace hangul {
constexpr uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;  // of each the first
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;
}  // namespace hangul

/// What the tokenizer needs to know about a code point.  The values are those of the Rust crates that Hugging
/// Face's tokenizer uses; their Unicode versions differ from each other (tools/make_unicode_tables.py).
enum CharFlag : uint32_t {
  kDrop = 1,                ///< removed by clean_text: control, format, private use, NUL, U+FFFD
  kSpace = 2,               ///< White_Space
  kPunctuation = 4,         ///< category P, or ASCII punctuation
  kNonspacing = 8,          ///< category Mn: what BERT's strip_accents removes
  kMark = 16,               ///< category M: what the generic StripAccents removes
  kWord = 32,               ///< \w of a regular expression
  kHasLower = 64,           ///< lower(cp) differs
  kHasDecomposition = 128,  ///< has a canonical decomposition (other than Hangul syllables)
  kLetter = 256,            ///< \p{L} of ByteLevel's pattern
  kNumber = 512,            ///< \p{N} of it
  kNfcMayChange =
      1024,  ///< is not always itself in NFC: decomposes, is a mark or composes with what is before it
  kHasCompatibility = 2048,  ///< has a compatibility decomposition that is not the canonical one
  // Grapheme_Cluster_Break and what goes with it (UAX #29).
  kJoins = 4096,        ///< Extend, SpacingMark or ZWJ: belongs to the code point before it
  kExtend = 8192,       ///< only Extend
  kPrepend = 16384,     ///< belongs to the code point after it
  kControl = 32768,     ///< its own cluster; CR and LF, too
  kPictograph = 65536,  ///< Extended_Pictographic
  kConsonant = 131072,  ///< Indic_Conjunct_Break Consonant
  kLinker = 262144,     ///< Indic_Conjunct_Break Linker
};

struct CharInfo {
  uint32_t flags;
  uint8_t combining_class;  ///< rank of the canonical combining class; 0 for starters
};

/// cp: any value; beyond U+10FFFF all zero.
CharInfo info(uint32_t cp);
/// Lower case of one code point; U+0130 gives 'i' (its full lower case is 'i' U+0307).
uint32_t lower(uint32_t cp);
/// Full canonical decomposition of a code point with kHasDecomposition; empty for all others.
std::span<const uint32_t> decomposition(uint32_t cp);
/// Full compatibility decomposition of a code point with kHasCompatibility; empty for all others.
std::span<const uint32_t> compatibility_decomposition(uint32_t cp);
/// The code point that two compose to (NFC), Hangul included; 0 if there is none.
uint32_t compose(uint32_t first, uint32_t second);
/// Where the extended grapheme cluster that begins at text[at] ends; at < text.size().  Source: UAX #29, but
/// a regional indicator is its own cluster, because pairs of them have 8 bytes.
size_t grapheme_end(std::string_view text, size_t at);
/// Chinese characters in the sense of BERT: each is its own word.
bool is_chinese(uint32_t cp);

/// The code point at text[*at], which is moved past it.  text must be valid UTF-8 and *at at a boundary.
uint32_t decode(std::string_view text, size_t* at);
/// The code point that ends before text[*at], which is moved to its beginning; *at > 0.
uint32_t decode_back(std::string_view text, size_t* at);
void append_utf8(uint32_t cp, std::string* out);
/// Code points in valid UTF-8.
size_t length(std::string_view text);
/// Length of the well-formed sequence at the front of `text`, or minus the length of the ill-formed part
/// there (table 3-7 of the Unicode standard: no surrogates, no overlong forms).  text: not empty.
int sequence_length(std::string_view text);
/// Byte offset of the first ill-formed part; npos if there is none.
size_t find_invalid(std::string_view text);
inline bool is_valid(std::string_view text) { return find_invalid(text) == std::string_view::npos; }
/// text with every maximal ill-formed part replaced by U+FFFD (Unicode 3.9, "substitution of maximal
/// subparts").
std::string repair(std::string_view text);

}  // namespace lathe::unicode
