#include "lathe/tokenizers/normalizer.h"

#include <algorithm>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

using unicode::CharInfo;

constexpr uint8_t kDropped = 0x80;

/// The part of the pass after decomposition, and the reordering of marks.
class NormalizedWriter {
 public:
  NormalizedWriter(const NormalizerRules& rules, NormalizedText* out) : rules_(rules), out_(out) {}

  void put_ascii(uint8_t c, uint32_t origin) {
    if (!pending_.empty()) flush();
    last_ = origin;
    out_->text.push_back(static_cast<char>(c));
    out_->origin.push_back(origin);
  }

  void put_decomposed(uint32_t cp, CharInfo info, uint32_t origin) {
    using namespace unicode::hangul;
    if (cp - kSyllable < kSyllables) {
      const uint32_t index = cp - kSyllable;
      put(kLead + index / 588, {}, origin, true);
      put(kVowel + index % 588 / 28, {}, origin, false);
      if (index % 28 != 0) put(kTail + index % 28, {}, origin, false);
    } else if ((info.flags & unicode::kHasDecomposition) != 0) {
      bool first = true;
      for (const uint32_t part : unicode::decomposition(cp)) {
        put(part, unicode::info(part), origin, first);
        first = false;
      }
    } else {
      put(cp, info, origin, true);
    }
  }

  void flush() {
    const auto by_class = [](const Pending& a, const Pending& b) {
      return a.info.combining_class < b.info.combining_class;
    };
    std::stable_sort(pending_.begin(), pending_.end(), by_class);
    // Positions are handed out in the order of the original, whatever mark now stands there; a further part
    // of a decomposition shares the position before it.
    size_t next = 0;
    for (const Pending& p : pending_) {
      if (p.first_part) last_ = origins_[next++];
      emit(p.cp, p.info, last_);
    }
    pending_.clear();
    origins_.clear();
  }

  void emit(uint32_t cp, CharInfo info, uint32_t origin) {
    if (rules_.strip == NormalizerRules::Strip::kNonspacing && (info.flags & unicode::kNonspacing) != 0)
      return;
    if (rules_.strip == NormalizerRules::Strip::kAllMarks && (info.flags & unicode::kMark) != 0) return;
    if (rules_.lowercase && (info.flags & unicode::kHasLower) != 0) {
      write(unicode::lower(cp), origin);
      if (cp == 0x130) write(0x307, origin);
    } else {
      write(cp, origin);
    }
  }

 private:
  struct Pending {
    uint32_t cp;
    CharInfo info;
    bool first_part;
  };

  void put(uint32_t cp, CharInfo info, uint32_t origin, bool first_part) {
    if (info.combining_class != 0) {
      pending_.push_back({cp, info, first_part});
      if (first_part) origins_.push_back(origin);
      return;
    }
    if (!pending_.empty()) flush();
    if (first_part) last_ = origin;
    emit(cp, info, last_);
  }

  void write(uint32_t cp, uint32_t origin) { out_->append(cp, origin); }

  const NormalizerRules& rules_;
  NormalizedText* out_;
  std::vector<Pending> pending_;   // marks since the last starter
  std::vector<uint32_t> origins_;  // positions of those that are not further parts
  uint32_t last_ = 0;
};

}  // namespace

Normalizer::Normalizer(const NormalizerRules& rules) : rules_(rules) {
  for (uint8_t c = 0; c < 128; ++c) {
    const uint32_t flags = unicode::info(c).flags;
    ascii_[c] = rules.lowercase && c >= 'A' && c <= 'Z' ? static_cast<uint8_t>(c + 32) : c;
    if (rules.clean_text && (flags & unicode::kSpace) != 0) ascii_[c] = ' ';
    if (rules.clean_text && (flags & unicode::kDrop) != 0) ascii_[c] = kDropped;
  }
}

void Normalizer::append(std::string_view text, uint32_t first, NormalizedText* out) const {
  NormalizedWriter writer(rules_, out);
  out->text.reserve(out->text.size() + text.size());
  out->origin.reserve(out->origin.size() + text.size());
  uint32_t origin = first;
  for (size_t i = 0; i < text.size(); ++origin) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      if (ascii_[byte] != kDropped) writer.put_ascii(ascii_[byte], origin);
      ++i;
      continue;
    }
    const uint32_t cp = unicode::decode(text, &i);
    const CharInfo info = unicode::info(cp);
    if (rules_.clean_text && (info.flags & unicode::kDrop) != 0) continue;
    if (rules_.clean_text && (info.flags & unicode::kSpace) != 0) {
      writer.put_ascii(' ', origin);
      continue;
    }
    const bool apart = rules_.handle_chinese_chars && unicode::is_chinese(cp);
    if (apart) writer.put_ascii(' ', origin);
    if (rules_.decompose) {
      writer.put_decomposed(cp, info, origin);
    } else {
      writer.emit(cp, info, origin);
    }
    if (apart) writer.put_ascii(' ', origin);
  }
  writer.flush();
}

}  // namespace lathe
