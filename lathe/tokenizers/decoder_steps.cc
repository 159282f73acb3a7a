#include "lathe/tokenizers/decoder_steps.h"

#include <algorithm>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/byte_level.h"

namespace lathe {
namespace {

using Tokens = std::vector<std::string>;

constexpr size_t kGrowthLimit = 256, kFreeBytes = 1 << 16;

std::string replaced(std::string_view token, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = token.find(from); at != std::string_view::npos; at = token.find(from, done)) {
    out += token.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  return out += token.substr(done);
}

std::optional<int> digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

/// The byte of a token <0x00> to <0xFF>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = digit(token[3]), low = digit(token[4]);
  if (token[3] == '+' && low) return static_cast<char>(*low);  // Rust reads a sign
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

Tokens fall_back(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (unicode::is_valid(bytes)) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      out.resize(out.size() + bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

std::string fused(const Tokens& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

/// content: one character.
std::string stripped(std::string_view token, const DecoderStep& step) {
  for (size_t n = 0; n < step.start && token.starts_with(step.content); ++n)
    token.remove_prefix(step.content.size());
  for (size_t n = 0; n < step.stop && token.ends_with(step.content); ++n)
    token.remove_suffix(step.content.size());
  return std::string(token);
}

std::string from_alphabet(const Tokens& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += byte_level::bytes_of(token).value_or(token);
  return unicode::repair(out);
}

void run_step(const DecoderStep& step, Tokens* tokens) {
  using Kind = DecoderStep::Kind;
  if (step.kind == Kind::kByteFallback) {
    *tokens = fall_back(*tokens);
  } else if (step.kind == Kind::kFuse) {
    *tokens = {fused(*tokens)};
  } else if (step.kind == Kind::kByteLevel) {
    *tokens = {from_alphabet(*tokens)};
  } else {
    for (std::string& token : *tokens) {
      const bool first = &token == tokens->data();
      if (step.kind == Kind::kStrip)
        token = stripped(token, step);
      else if (step.kind == Kind::kReplace)
        token = replaced(token, step.text, step.content);
      else
        token = replaced(token, step.text, first && step.drops_first ? "" : " ");
    }
  }
}

size_t size_of(const Tokens& tokens) {
  size_t out = 0;
  for (const std::string& token : tokens) out += token.size();
  return out;
}

}  // namespace

std::string run_decoder(std::span<const DecoderStep> steps, std::vector<std::string> tokens) {
  const size_t most = kFreeBytes + kGrowthLimit * size_of(tokens);
  for (const DecoderStep& step : steps) {
    run_step(step, &tokens);
    if (size_of(tokens) > most)
      fail(ErrorCode::kInvalidData,
           "decoder: tokens became {} bytes of text; expected steps that make at most {} times as much",
           size_of(tokens), kGrowthLimit);
  }
  return fused(tokens);
}

}  // namespace lathe
