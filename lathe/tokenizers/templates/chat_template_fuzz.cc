// A template, a zero byte, and JSON as its context: an Error, or a text within the limits whose spans lie in
// it.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/chat_template.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const lathe::RenderedChat& out, const lathe::RenderOptions& options) {
  require(out.text.size() <= options.limits.text_bytes);
  require(lathe::unicode::is_valid(out.text));
  size_t before = 0;
  for (const auto& [begin, end] : out.generated) {
    require(before <= begin && begin <= end && end <= out.text.size());
    before = end;
  }
  const auto spans = out.generated_code_points();
  require(spans.size() == out.generated.size());
  if (!spans.empty()) require(spans.back()[1] <= lathe::unicode::length(out.text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(bytes.find('\0'), size);
  const lathe::RenderOptions options = {.now = lathe::WallTime{2024, 7, 26},
                                        .limits = {.steps = 200'000, .text_bytes = 1 << 20}};
  try {
    const auto chat = lathe::ChatTemplate::parse(bytes.substr(0, end), "fuzz");
    nlohmann::ordered_json context = nlohmann::ordered_json::object();
    try {
      context = lathe::parse_ordered_json(bytes.substr(std::min(end + 1, size)), "context");
    } catch (const lathe::Error&) {
    }
    if (!context.is_object()) context = {{"messages", context}};
    const lathe::RenderedChat first = chat.render(context, options);
    check(first, options);
    require(chat.render(context, options).text == first.text);
  } catch (const lathe::Error& e) {
    require(e.code() != lathe::ErrorCode::kInternal);
  }
  return 0;
}
