#include "lathe/models/make_model.h"

#include "lathe/models/decoders/decoder.h"
#include "lathe/models/encoders/encoder.h"
#include "lathe/models/family.h"

namespace lathe {

std::unique_ptr<TaskModel> make_model(const ModelConfig& config, const TaskPtr& task) {
  const bool decodes = family_of(config.model_type, config.file).decoder != nullptr;
  return decodes ? make_decoder(config, task) : make_encoder(config, task);
}

std::string architecture(const ModelConfig& config, HeadKind head) {
  constexpr const char* kNames[] = {"ForSequenceClassification",
                                    "ForTokenClassification",
                                    "ForQuestionAnswering",
                                    "ForMaskedLM",
                                    "ForMultipleChoice",
                                    "Model",
                                    "ForCausalLM"};
  const Family& family = family_of(config.model_type, config.file);
  const bool own =
      head == HeadKind::kCausalLM && family.decoder != nullptr && family.decoder->writer_prefix != nullptr;
  return (own ? family.decoder->writer_prefix : family.class_prefix) +
         std::string(kNames[static_cast<size_t>(head)]);
}

}  // namespace lathe
