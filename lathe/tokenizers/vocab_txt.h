#pragma once
#include <string>

#include "lathe/tokenizers/tokenizer_json.h"

namespace lathe {

/// A token a line, white space at its end cut off; the id is the line's number, of equal lines the last
/// counts.  `name` is for messages.  Errors: kInvalidData for what is no UTF-8 or no text at all, and for
/// more than 2^24 lines.
Vocabulary read_vocab_txt(const std::string& bytes, const std::string& name);

}  // namespace lathe
