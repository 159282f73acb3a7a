#pragma once
#include <string_view>

namespace lathe {

/// The grammar of demo_questions.h, as text.

/// Word lists: a line `name: entry | entry | ...` each; a line that begins with a blank goes on with the list
/// above.  An entry may hold $name of a list further up.
extern const std::string_view kDemoLexicon;

/// Question templates: a line `[class]` begins a class, every other line is a template with $name in the
/// places to fill.  No template is in both; every word of a held-out one occurs in training.
extern const std::string_view kDemoTrainTemplates;
extern const std::string_view kDemoHeldoutTemplates;

}  // namespace lathe
