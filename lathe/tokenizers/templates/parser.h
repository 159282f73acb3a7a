#pragma once
#include <string>
#include <string_view>

#include "lathe/tokenizers/templates/syntax.h"

namespace lathe::templates {

/// The template as a tree.  Errors as of ChatTemplate::parse.
Program parse_program(std::string_view source, const std::string& place);

}  // namespace lathe::templates
