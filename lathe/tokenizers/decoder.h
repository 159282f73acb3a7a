#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// A step of a decoder that is a Sequence: it turns tokens into others, which at the end are put together.
struct DecoderStep {
  /// kReplace: every `text` within a token becomes `content`.  kByteFallback: tokens <0x00> to <0xFF> next to
  /// each other become the characters that these bytes are, or U+FFFD each.  kFuse: all tokens become one.
  /// kStrip: up to `start` characters `content` go at the beginning of each token, up to `stop` at its end.
  /// kByteLevel: all tokens become one, the text of bytes in ByteLevel's alphabet.
  /// kMetaspace: `text` becomes a blank; those of the first token go if `drops_first`.
  enum class Kind { kReplace, kByteFallback, kFuse, kStrip, kByteLevel, kMetaspace };

  Kind kind = Kind::kFuse;
  std::string text = {}, content = {};
  size_t start = 0, stop = 0;
  bool drops_first = true;
};

/// How tokens become text again.
struct DecoderRules {
  /// kBlanks: no decoder, tokens are parted by blanks.  kSteps: a Sequence.
  enum class Kind { kBlanks, kWordPiece, kByteLevel, kMetaspace, kSteps };

  Kind kind = Kind::kWordPiece;
  std::string prefix =
      "##";                 ///< kWordPiece: of pieces that continue a word; kMetaspace: what replaces a blank
  bool cleanup = true;      ///< kWordPiece: English spacing is mended
  bool drops_first = true;  ///< kMetaspace: blanks of the first token are the prefix and go
  std::vector<DecoderStep> steps = {};
};

/// Puts tokens together.  Source: the decoders of the `tokenizers` crate.
class Decoder {
 public:
  explicit Decoder(const DecoderRules& rules) : rules_(rules) {}
  void put(std::string_view token);
  /// The text; ill-formed UTF-8 becomes U+FFFD.
  /// Errors: kInvalidData if the steps lengthen the text beyond all measure.
  std::string finish() &&;

 private:
  const DecoderRules& rules_;
  std::string text_;
  std::vector<std::string> tokens_;  // kSteps
  bool first_ = true;
};

}  // namespace lathe
