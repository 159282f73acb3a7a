#include "lathe/models/family.h"

#include "lathe/core/error.h"

namespace lathe {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all{&kBert,       &kRoberta, &kXlmRoberta, &kCamembert,
                                              &kDistilBert, &kElectra, &kModernBert, &kLlama,
                                              &kMistral,    &kQwen2,   &kQwen3,      &kGemma3};
  return all;
}

const Family& family_of(const std::string& model_type, const std::string& file) {
  std::string known;
  for (const Family* family : families()) {
    if (model_type == family->model_type) return *family;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", family->model_type);
  }
  if (model_type == "deberta" || model_type == "deberta-v2")
    fail(ErrorCode::kUnsupported,
         "{}: \"model_type\" is \"{}\", expected one of {}: Lathe's attention has no scores of relative "
         "positions; "
         "take an encoder without them, \"modernbert\" or \"electra\" for English, \"xlm-roberta\" for many "
         "languages",
         file, model_type, known);
  fail(
      ErrorCode::kUnsupported,
      "{}: \"model_type\" is \"{}\", expected one of {}: Lathe has no other so far; take a model that has it",
      file, model_type, known);
}

}  // namespace lathe
