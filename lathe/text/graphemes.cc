#include "lathe/text/unicode.h"

namespace lathe::unicode {
namespace {

constexpr uint32_t kZeroWidthNonJoiner = 0x200C, kZeroWidthJoiner = 0x200D;

enum class Jamo { kNone, kLead, kVowel, kTail, kSyllable, kClosedSyllable };

Jamo jamo_of(uint32_t cp) {
  using namespace hangul;
  if (cp < kLead) return Jamo::kNone;
  if (cp < 0x1160 || (cp >= 0xA960 && cp < 0xA97D)) return Jamo::kLead;
  if (cp < 0x11A8 || (cp >= 0xD7B0 && cp < 0xD7C7)) return Jamo::kVowel;
  if (cp < 0x1200 || (cp >= 0xD7CB && cp < 0xD7FC)) return Jamo::kTail;
  if (cp - kSyllable >= kSyllables) return Jamo::kNone;
  return (cp - kSyllable) % kTails == 0 ? Jamo::kSyllable : Jamo::kClosedSyllable;
}

bool is_one_syllable(Jamo before, Jamo after) {
  switch (before) {
    case Jamo::kLead:
      return after != Jamo::kNone && after != Jamo::kTail;
    case Jamo::kVowel:
    case Jamo::kSyllable:
      return after == Jamo::kVowel || after == Jamo::kTail;
    case Jamo::kTail:
    case Jamo::kClosedSyllable:
      return after == Jamo::kTail;
    case Jamo::kNone:
      break;
  }
  return false;
}

/// The sequences of UAX #29 that reach over more than two code points.
class Sequences {
 public:
  bool joins(uint32_t flags) const {
    return ((flags & kPictograph) != 0 && emoji_ == Emoji::kJoined) ||
           ((flags & kConsonant) != 0 && conjunct_ == Conjunct::kLinked);
  }

  void add(uint32_t cp, uint32_t flags) {
    const bool extends = (flags & kExtend) != 0, joiner = cp == kZeroWidthJoiner;
    if ((flags & kPictograph) != 0)
      emoji_ = Emoji::kBegun;
    else if (!extends)
      emoji_ = joiner && emoji_ == Emoji::kBegun ? Emoji::kJoined : Emoji::kNone;
    else if (emoji_ == Emoji::kJoined)
      emoji_ = Emoji::kNone;
    if ((flags & kConsonant) != 0)
      conjunct_ = Conjunct::kBegun;
    else if ((flags & kLinker) != 0)
      conjunct_ = conjunct_ == Conjunct::kNone ? Conjunct::kNone : Conjunct::kLinked;
    else if ((!extends && !joiner) || cp == kZeroWidthNonJoiner)
      conjunct_ = Conjunct::kNone;
  }

 private:
  enum class Emoji { kNone, kBegun, kJoined } emoji_ = Emoji::kNone;
  enum class Conjunct { kNone, kBegun, kLinked } conjunct_ = Conjunct::kNone;
};

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  uint32_t before = decode(text, &at), before_flags = info(before).flags;
  if (before == '\r' && at < text.size() && text[at] == '\n') return at + 1;
  if ((before_flags & kControl) != 0) return at;
  Sequences sequences;
  while (at < text.size()) {
    sequences.add(before, before_flags);
    size_t next = at;
    const uint32_t cp = decode(text, &next), flags = info(cp).flags;
    if ((flags & kControl) != 0) return at;
    if ((flags & kJoins) == 0 && (before_flags & kPrepend) == 0 && !sequences.joins(flags) &&
        !is_one_syllable(jamo_of(before), jamo_of(cp)))
      return at;
    before = cp, before_flags = flags, at = next;
  }
  return at;
}

}  // namespace lathe::unicode
