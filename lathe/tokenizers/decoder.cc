#include "lathe/tokenizers/decoder.h"

#include <algorithm>
#include <utility>

#include "lathe/text/unicode.h"
#include "lathe/tokenizers/byte_level.h"
#include "lathe/tokenizers/decoder_steps.h"

namespace lathe {
namespace {

void replace_all(std::string_view from, std::string_view to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

/// English spacing, as the decoder of the `tokenizers` crate mends it.
void clean_up(std::string* text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(from, to, text);
}

}  // namespace

void Decoder::put(std::string_view token) {
  using Kind = DecoderRules::Kind;
  if (rules_.kind == Kind::kSteps) return void(tokens_.emplace_back(token));
  const bool first = std::exchange(first_, false);
  if (rules_.kind == Kind::kByteLevel) {
    if (const auto bytes = byte_level::bytes_of(token))
      text_ += *bytes;
    else
      text_ += token;
  } else if (rules_.kind == Kind::kMetaspace) {
    for (size_t at = 0; at < token.size();) {
      const size_t blank = std::min(token.find(rules_.prefix, at), token.size());
      text_ += token.substr(at, blank - at);
      if (blank < token.size() && !(first && rules_.drops_first)) text_ += ' ';
      at = blank + rules_.prefix.size();
    }
  } else {
    const bool joined = rules_.kind == Kind::kWordPiece && token.starts_with(rules_.prefix);
    std::string piece(first ? "" : joined ? "" : " ");
    piece += !first && joined ? token.substr(rules_.prefix.size()) : token;
    if (rules_.kind == Kind::kWordPiece && rules_.cleanup) clean_up(&piece);
    text_ += piece;
  }
}

std::string Decoder::finish() && {
  if (rules_.kind == DecoderRules::Kind::kSteps) return run_decoder(rules_.steps, std::move(tokens_));
  if (rules_.kind == DecoderRules::Kind::kByteLevel && !unicode::is_valid(text_))
    return unicode::repair(text_);
  return std::move(text_);
}

}  // namespace lathe
