#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// A time of the clock on the wall, for `strftime_now`; the day of the week follows from the date.
struct WallTime {
  int year = 1970, month = 1, day = 1;  ///< month and day from 1
  int hour = 0, minute = 0, second = 0;
};

/// What a rendering may use at most; a template that needs more is an error.
struct TemplateLimits {
  /// Work: about one unit for each expression, item and 16 bytes of text made.
  int64_t steps = int64_t{1} << 24;
  /// Bytes of what is printed, and of each text on the way.
  size_t text_bytes = size_t{64} << 20;
};

struct RenderOptions {
  std::optional<WallTime> now;  ///< of strftime_now; nothing: the clock, in local time
  TemplateLimits limits;
};

/// What a template makes of a conversation.
struct RenderedChat {
  std::string text;  ///< UTF-8
  /// What stands inside `{% generation %}` … `{% endgeneration %}`: [begin, end) in bytes of text, ascending.
  std::vector<std::array<size_t, 2>> generated;
  /// The same in code points, as transformers counts.
  std::vector<std::array<size_t, 2>> generated_code_points() const;
};

namespace templates {
struct Program;
}

/// A chat template: the part of Jinja that models' templates use, set up as transformers does (trim_blocks,
/// lstrip_blocks, loop controls, `generation`, a sandbox in which nothing of the context can be changed).
///
/// - Statements: for (with `if` and else), if, set (also of a block, and of a namespace's attribute), macro,
///   with, filter, raw, generation, break, continue.
/// - Expressions follow Python's rules; an integer has 64 bits. Filters, tests, methods and functions are
///   those that the files of this folder list. A default Undefined prints nothing; its attribute is an error.
/// - tojson writes as Python's json.dumps does, with ensure_ascii off unless asked for.
///
/// Immutable: all methods may be called from any thread.  Copies share their state.
/// Source: the documentation of Jinja 3.1 and of transformers' chat templates; jinja2 is the oracle of the
/// tests.
class ChatTemplate {
 public:
  /// place: names the template in messages.  Errors, with "place:line: ": kInvalidData if it is malformed;
  /// kUnsupported, with the construct by name, if it is outside of the part of Jinja that this class reads.
  static ChatTemplate parse(std::string_view source, const std::string& place);

  /// context: an object, its members the template's variables: messages, tools, documents,
  /// add_generation_prompt, bos_token, and others.  Strings are UTF-8; ill-formed parts become U+FFFD.
  /// Errors, with "place:line: ": kInvalidData for what raise_exception says, operations that do not fit
  /// their values and limits that are passed; kUnsupported for what parse cannot see; kUsage if context is
  /// no object.
  RenderedChat render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;

  /// Whether the template says which text an assistant generates.
  bool has_generation() const;
  const std::string& source() const;

 private:
  explicit ChatTemplate(std::shared_ptr<const templates::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const templates::Program> program_;
};

}  // namespace lathe
