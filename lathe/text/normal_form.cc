#include "lathe/text/normal_form.h"

#include <algorithm>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

struct Part {
  uint32_t cp;
  int32_t change;  // 0: the first of its code point's parts, else 1
  uint8_t combining_class;
};

/// The parts of a text, marks in canonical order.
class Decomposer {
 public:
  explicit Decomposer(bool compatible) : compatible_(compatible) {}

  std::vector<Part> run(std::string_view text) {
    for (size_t at = 0; at < text.size();) put(unicode::decode(text, &at));
    sort_marks();
    return std::move(parts_);
  }

 private:
  void put(uint32_t cp) {
    using namespace unicode::hangul;
    const unicode::CharInfo info = unicode::info(cp);
    if (cp - kSyllable < kSyllables) {
      const uint32_t index = cp - kSyllable;
      put(kLead + index / (kVowels * kTails), 0, 0);
      put(kVowel + index % (kVowels * kTails) / kTails, 1, 0);
      if (index % kTails != 0) put(kTail + index % kTails, 1, 0);
    } else if (compatible_ && (info.flags & unicode::kHasCompatibility) != 0) {
      put_all(unicode::compatibility_decomposition(cp));
    } else if ((info.flags & unicode::kHasDecomposition) != 0) {
      put_all(unicode::decomposition(cp));
    } else {
      put(cp, 0, info.combining_class);
    }
  }

  void put_all(std::span<const uint32_t> parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      put(parts[i], i > 0 ? 1 : 0, unicode::info(parts[i]).combining_class);
  }

  void put(uint32_t cp, int32_t change, uint8_t combining_class) {
    if (combining_class == 0) {
      sort_marks();
      marks_ = parts_.size() + 1;
    }
    parts_.push_back({cp, change, combining_class});
  }

  void sort_marks() {
    if (parts_.size() - std::min(marks_, parts_.size()) < 2) return;
    std::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(marks_), parts_.end(),
                     [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
  }

  bool compatible_;
  std::vector<Part> parts_;
  size_t marks_ = 0;  // where those since the last starter begin
};

/// Composes starters with what follows them and is not blocked from them.
void compose(std::span<const Part> parts, std::vector<Change>* out) {
  size_t starter = SIZE_MAX;  // place in *out of the character that marks compose with
  int last_class = -1;        // combining class of the last mark after it; -1: there is none
  for (const Part& p : parts) {
    if (starter != SIZE_MAX && last_class < p.combining_class) {
      const uint32_t both = unicode::compose((*out)[starter].cp, p.cp);
      if (both != 0) {
        (*out)[starter] = {both, (*out)[starter].change + p.change - 1};
        continue;
      }
    }
    if (p.combining_class == 0) {
      starter = out->size();
      last_class = -1;
    } else if (starter != SIZE_MAX) {
      last_class = p.combining_class;
    }
    out->push_back({p.cp, p.change});
  }
}

}  // namespace

bool is_in_form(std::string_view text, NormalForm form) {
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  uint32_t flags = composes ? unicode::kNfcMayChange : unicode::kHasDecomposition | unicode::kNfcMayChange;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) flags |= unicode::kHasCompatibility;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const uint32_t cp = unicode::decode(text, &at);
    if ((unicode::info(cp).flags & flags) != 0) return false;
    if (!composes && cp - unicode::hangul::kSyllable < unicode::hangul::kSyllables) return false;
  }
  return true;
}

void to_normal_form(std::string_view text, NormalForm form, std::vector<Change>* out) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const std::vector<Part> parts = Decomposer(compatible).run(text);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) return compose(parts, out);
  for (const Part& p : parts) out->push_back({p.cp, p.change});
}

}  // namespace lathe
