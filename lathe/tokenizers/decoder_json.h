#pragma once
#include "lathe/tokenizers/json_document.h"
#include "lathe/tokenizers/tokenizer_spec.h"

namespace lathe {

/// Reads `decoder` of tokenizer.json; *spec has its model already.  Errors: kInvalidData; kUnsupported.
void read_decoder(const JsonDocument& doc, TokenizerSpec* spec);

}  // namespace lathe
