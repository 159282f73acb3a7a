#pragma once
#include <span>
#include <string>
#include <vector>

#include "lathe/tokenizers/decoder.h"

namespace lathe {

/// The text that the steps, one after the other, make of the tokens.
/// Errors: kInvalidData if they lengthen the text beyond all measure.
std::string run_decoder(std::span<const DecoderStep> steps, std::vector<std::string> tokens);

}  // namespace lathe
