#pragma once
#include <string_view>

#include "lathe/tokenizers/templates/value.h"

namespace lathe::templates {

/// A filter whose subject is a list or another value with items, or null.
Function find_sequence_filter(std::string_view name);

}  // namespace lathe::templates
