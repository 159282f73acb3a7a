// The flags of run_clm.py.
#include "lathe/settings/argument_table_lm.h"

namespace lathe {

const std::vector<Field<ClmArguments>>& clm_fields() {
  using A = ClmArguments;
  constexpr Grade kScript = Grade::kMust;
  static const std::vector<Field<A>> fields = with_lm_rows<A>(
      {
          {"block_size",
           &A::block_size,
           kScript,
           "Tokens of a sample, if not what the tokenizer takes, 1024 at most.",
           {.low = 2, .high = kMostTokensOfSample, .first = true}},
          {"keep_linebreaks", &A::keep_linebreaks, kScript,
           "Lines of a text file keep their ends, which are learnt, too."},
      },
      {"gemma3_text", "llama", "mistral", "qwen2", "qwen3"});
  return fields;
}

}  // namespace lathe
