#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// How tokens become text again.
struct DecoderRules {
  /// kBlanks: no decoder, tokens are parted by blanks.
  enum class Kind { kBlanks, kWordPiece, kByteLevel, kMetaspace };

  Kind kind = Kind::kWordPiece;
  std::string prefix =
      "##";                 ///< kWordPiece: of pieces that continue a word; kMetaspace: what replaces a blank
  bool cleanup = true;      ///< kWordPiece: English spacing is mended
  bool drops_first = true;  ///< kMetaspace: blanks of the first token are the prefix and go
};

/// Puts tokens together.  Source: the decoders of the `tokenizers` crate.
class Decoder {
 public:
  explicit Decoder(const DecoderRules& rules) : rules_(rules) {}
  void put(std::string_view token);
  /// The text; ill-formed UTF-8 becomes U+FFFD.
  std::string finish() &&;

 private:
  const DecoderRules& rules_;
  std::string text_;
  bool first_ = true;
};

}  // namespace lathe
