#include "lathe/tokenizers/normalizer_chain.h"

#include <type_traits>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

constexpr size_t kMostGrowth = 256, kSpareBytes = 1 << 16;

/// Applies one step: true if *out has what becomes of the text, false if that stays as it is.
struct Apply {
  const NormalizedText& from;
  std::vector<Change>* changes;
  NormalizedText* out;

  bool operator()(const Normalizer& normalizer) const {
    std::vector<uint32_t> origins;  // by code point
    for (size_t i = 0; i < from.text.size(); ++i)
      if ((static_cast<uint8_t>(from.text[i]) & 0xC0) != 0x80) origins.push_back(from.origin[i]);
    out->clear();
    normalizer.append(from.text, 0, out);
    for (uint32_t& origin : out->origin) origin = origins[origin];
    return true;
  }

  bool operator()(NormalForm form) const {
    if (is_in_form(from.text, form)) return false;
    changes->clear();
    to_normal_form(from.text, form, changes);
    transform(from, *changes, out);
    return true;
  }

  bool operator()(const std::shared_ptr<const CharsMap>& map) const { return map->apply(from, changes, out); }

  /// What is new comes from the last code point that it replaces.
  bool operator()(const Replacement& r) const {
    const std::string_view text(from.text);
    const auto next_match = [&](size_t at, size_t* end) {
      for (size_t begin = text.find(r.pattern, at); begin != std::string_view::npos;
           begin = text.find(r.pattern, *end)) {
        *end = begin + r.pattern.size();
        while (r.runs && text.substr(*end).starts_with(r.pattern)) *end += r.pattern.size();
        if (!r.runs || *end - begin > r.pattern.size()) return begin;
      }
      return std::string_view::npos;
    };
    size_t done = 0, end = 0, begin = next_match(0, &end);
    if (begin == std::string_view::npos) return false;
    out->clear();
    for (; begin != std::string_view::npos; begin = next_match(end, &end)) {
      out->append(from, done, begin);
      out->text += r.content;
      out->origin.resize(out->text.size(), from.origin[end - 1]);
      done = end;
    }
    out->append(from, done, text.size());
    return true;
  }

  /// What is new comes from the code point after it.
  bool operator()(const Prefix& prefix) const {
    if (from.text.empty()) return false;
    out->clear();
    out->text = prefix.text;
    out->origin.assign(prefix.text.size(), from.origin[0]);
    out->append(from, 0, from.text.size());
    return true;
  }

  bool operator()(const StripRules& rules) const {
    const std::string_view text(from.text);
    const auto is_space = [](uint32_t cp) { return (unicode::info(cp).flags & unicode::kSpace) != 0; };
    size_t begin = 0, end = text.size();
    for (size_t at = 0; rules.left && at < end && is_space(unicode::decode(text, &at));) begin = at;
    for (size_t at = end; rules.right && at > begin && is_space(unicode::decode_back(text, &at));) end = at;
    if (begin == 0 && end == text.size()) return false;
    out->clear();
    out->append(from, begin, end);
    return true;
  }

  bool operator()(NmtRules) const {
    out->clear();
    for (size_t at = 0; at < from.text.size();) {
      const uint32_t origin = from.origin[at], cp = unicode::decode(from.text, &at);
      const bool control = (cp >= 1 && cp <= 8) || cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F ||
                           cp == 0x8F || cp == 0x9F;
      const bool space = (cp >= 9 && cp <= 0xD) || cp == 0x1680 || (cp >= 0x200B && cp <= 0x200F) ||
                         cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD;
      if (!control) out->append(space ? ' ' : cp, origin);
    }
    return true;
  }
};

}  // namespace

NormalizerChain::NormalizerChain(const std::vector<NormalizerStep>& steps) {
  const auto add = [this](const auto& step) {
    if constexpr (std::is_same_v<std::decay_t<decltype(step)>, NormalizerRules>)
      passes_.emplace_back(Normalizer(step));
    else
      passes_.emplace_back(step);
  };
  for (const NormalizerStep& step : steps) std::visit(add, step);
}

void NormalizerChain::run(std::string_view text, uint32_t first, NormalizedText* out) const {
  auto pass = passes_.begin();
  if (pass != passes_.end() && std::holds_alternative<Normalizer>(*pass)) {
    out->clear();
    std::get<Normalizer>(*pass++).append(text, first, out);
  } else {
    out->assign(text, first);
  }
  thread_local std::vector<Change> changes;
  thread_local NormalizedText next;
  for (; pass != passes_.end(); ++pass) {
    if (std::visit(Apply{*out, &changes, &next}, *pass)) std::swap(*out, next);
    // Steps that each lengthen what the one before made would fill the memory; NFKD makes 11 times as much at
    // most.
    if (out->text.size() > kSpareBytes + kMostGrowth * text.size())
      fail(ErrorCode::kInvalidData,
           "normalizer: a text of {} bytes became {}; expected steps that make at most {} times as much",
           text.size(), out->text.size(), kMostGrowth);
  }
}

}  // namespace lathe
