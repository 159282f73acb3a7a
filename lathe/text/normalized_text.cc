#include "lathe/text/normalized_text.h"

#include "lathe/text/unicode.h"

namespace lathe {

void NormalizedText::assign(std::string_view original, uint32_t first) {
  text.assign(original);
  origin.resize(text.size());
  uint32_t at = first - 1;
  for (size_t i = 0; i < text.size(); ++i) {
    at += (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80 ? 1 : 0;
    origin[i] = at;
  }
}

void NormalizedText::append(const NormalizedText& from, size_t begin, size_t end) {
  text.append(from.text, begin, end - begin);
  origin.insert(origin.end(), from.origin.begin() + static_cast<std::ptrdiff_t>(begin),
                from.origin.begin() + static_cast<std::ptrdiff_t>(end));
}

void NormalizedText::append(uint32_t cp, uint32_t where) {
  unicode::append_utf8(cp, &text);
  origin.resize(text.size(), where);
}

void transform(const NormalizedText& from, std::span<const Change> changes, NormalizedText* out) {
  out->clear();
  out->text.reserve(from.text.size());
  out->origin.reserve(from.text.size());
  size_t at = 0;
  for (const auto& [cp, change] : changes) {
    if (change > 0) {
      out->append(cp, at > 0 ? from.origin[at - 1] : 0);
      continue;
    }
    if (at >= from.text.size()) return;  // more is replaced than there is: no normaliser asks for it
    out->append(cp, from.origin[at]);
    for (int32_t n = change; n <= 0 && at < from.text.size(); ++n) unicode::decode(from.text, &at);
  }
}

}  // namespace lathe
