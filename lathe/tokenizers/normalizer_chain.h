#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/text/normal_form.h"
#include "lathe/tokenizers/chars_map.h"
#include "lathe/tokenizers/normalizer.h"

namespace lathe {

/// Every occurrence of a text, from left to right, becomes another one.
struct Replacement {
  std::string pattern;  ///< not empty
  bool runs = false;    ///< the longest runs of two or more patterns are replaced, not each one
  std::string content;
};

/// A text goes before every stretch that is not empty.
struct Prefix {
  std::string text;
};

/// White space goes at the ends of the text.
struct StripRules {
  bool left = false, right = false;
};

/// Control characters go and white space becomes a blank, as in SentencePiece's nmt_nfkc.
struct NmtRules {};

using NormalizerStep = std::variant<NormalizerRules, NormalForm, std::shared_ptr<const CharsMap>, Replacement,
                                    StripRules, NmtRules, Prefix>;

/// Steps of normalisation, one after the other.  Immutable: for any thread.
class NormalizerChain {
 public:
  explicit NormalizerChain(const std::vector<NormalizerStep>& steps);
  /// Overwrites *out.  text: valid UTF-8; first: index of its first code point.
  /// Errors: kInvalidData if the steps lengthen the text beyond all measure.
  void run(std::string_view text, uint32_t first, NormalizedText* out) const;

 private:
  using Pass = std::variant<Normalizer, NormalForm, std::shared_ptr<const CharsMap>, Replacement, StripRules,
                            NmtRules, Prefix>;
  std::vector<Pass> passes_;
};

}  // namespace lathe
