#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "lathe/text/normalized_text.h"

namespace lathe {

/// What a normaliser does, in the order of the members.
struct NormalizerRules {
  enum class Strip { kNothing, kNonspacing, kAllMarks };

  bool clean_text = false;
  bool handle_chinese_chars = false;
  bool decompose = false;
  Strip strip = Strip::kNothing;
  bool lowercase = false;
};

/// BertNormalizer, and the chains of NFD, Lowercase and StripAccents that do the same, as one pass.
class Normalizer {
 public:
  explicit Normalizer(const NormalizerRules& rules);
  const NormalizerRules& rules() const { return rules_; }
  /// Appends the normalised text to *out.  text: valid UTF-8; first: index of its first code point.
  void append(std::string_view text, uint32_t first, NormalizedText* out) const;

 private:
  NormalizerRules rules_;
  std::array<uint8_t, 128> ascii_;  // what becomes of each ASCII byte; 0x80: it is dropped
};

}  // namespace lathe
