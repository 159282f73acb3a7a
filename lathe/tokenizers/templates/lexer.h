#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::templates {

struct Token {
  enum class Kind {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind = Kind::kEnd;
  uint32_t line = 0;
  std::string text;  ///< of a string its value
  int64_t integer = 0;
  double real = 0;
};

/// A template as tokens, the last one kEnd.  Comments, raw blocks and white space around tags are resolved:
/// trim_blocks, lstrip_blocks, the signs - and +, line ends as \n, one line end less at the end.
/// Errors: kInvalidData and kUnsupported "place:line: …".
std::vector<Token> tokenize(std::string_view source, const std::string& place);

}  // namespace lathe::templates
