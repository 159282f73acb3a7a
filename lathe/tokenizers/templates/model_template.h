#pragma once
#include <string>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// A template that a model's folder holds.
struct ModelTemplate {
  std::string name;    ///< "default", "tool_use", …
  std::string source;  ///< Jinja
  std::string place;   ///< for messages: the file, and the key in it
};

/// The chat templates of a model's folder: chat_template.jinja ("default") and additional_chat_templates/
/// NAME.jinja where there are any, else `chat_template` of tokenizer_config.json: a text ("default"), or a
/// list of objects with name and template, the later of two of a name.  Empty if the model has none.
/// Errors: kIo or kNotFound for a file that is there but cannot be read; kInvalidData "file: …" for one that
/// is malformed, no UTF-8, or a Git LFS pointer.
std::vector<ModelTemplate> read_model_templates(FileSystem& fs, const std::string& folder);

/// The one that transformers takes: of several "tool_use" for a conversation with tools, else "default".
/// folder: for messages.  Errors: kNotFound if the model has no template, or none of these names.
const ModelTemplate& choose_model_template(const std::vector<ModelTemplate>& templates, bool tools,
                                           const std::string& folder);

}  // namespace lathe
