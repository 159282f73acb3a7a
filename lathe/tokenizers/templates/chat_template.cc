#include "lathe/tokenizers/templates/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/templates/machine.h"
#include "lathe/tokenizers/templates/parser.h"

namespace lathe {

std::vector<std::array<size_t, 2>> RenderedChat::generated_code_points() const {
  std::vector<std::array<size_t, 2>> out;
  size_t bytes = 0, code_points = 0;  // the second of the first
  const auto at = [&](size_t offset) {
    code_points += unicode::length(std::string_view(text).substr(bytes, offset - bytes));
    bytes = offset;
    return code_points;
  };
  for (const auto& [begin, end] : generated) {
    const size_t first = at(begin);
    out.push_back({first, at(end)});
  }
  return out;
}

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& place) {
  return ChatTemplate(std::make_shared<const templates::Program>(templates::parse_program(source, place)));
}

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& context, const RenderOptions& options) const {
  if (!context.is_object())
    fail(ErrorCode::kUsage, "{}: the context of a template: found a {}, expected an object", program_->place,
         context.type_name());
  return templates::Machine(*program_, options).run(context);
}

bool ChatTemplate::has_generation() const { return program_->has_generation; }
const std::string& ChatTemplate::source() const { return program_->source; }

}  // namespace lathe
