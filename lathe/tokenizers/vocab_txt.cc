#include "lathe/tokenizers/vocab_txt.h"

#include <algorithm>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/io/foreign_content.h"
#include "lathe/text/unicode.h"

namespace lathe {

Vocabulary read_vocab_txt(const std::string& bytes, const std::string& name) {
  refuse_foreign_content(bytes, name, "a token in each line");
  if (const size_t bad = unicode::find_invalid(bytes); bad != std::string::npos)
    fail(ErrorCode::kInvalidData,
         "{}:{}: not valid UTF-8; expected a token in each line: fetch the file again", name,
         1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bad), '\n'));
  Vocabulary out;
  int32_t id = 0;
  for (size_t begin = 0; begin < bytes.size(); ++id) {
    if (id >= kTokenIdLimit)
      fail(ErrorCode::kInvalidData,
           "{}: found more than {} lines, expected a token in each: fetch the file again", name,
           kTokenIdLimit);
    const size_t newline = std::min(bytes.find('\n', begin), bytes.size());
    std::string_view line(bytes.data() + begin, newline - begin);
    for (size_t at = line.size(); at > 0; line = line.substr(0, at)) {
      if ((unicode::info(unicode::decode_back(line, &at)).flags & unicode::kSpace) == 0) break;
    }
    out[std::string(line)] = id;
    begin = newline + 1;
  }
  return out;
}

}  // namespace lathe
