// Pipelines of decoders' tokenizers against the package `tokenizers`; tools/make_decoder_tokenizer_goldens.py
// stores what it makes of the texts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/io/json_file.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe::decoder_goldens_test {
namespace {

const nlohmann::json& goldens() {
  static const nlohmann::json all =
      read_json(real_file_system(), source_path("lathe/tokenizers/testdata/decoder_goldens.json"));
  return all;
}

Tokenizer made(const nlohmann::json& file) {
  const std::vector<NamedFile> files = {{"tokenizer.json", file.dump()}};
  return Tokenizer::from_files(files, "golden");
}

TEST(DecoderTokenizers, EqualThePackage) {
  const auto texts = goldens()["texts"].get<std::vector<std::string>>();
  ASSERT_EQ(goldens()["families"].size(), 6u);
  for (const auto& [name, family] : goldens()["families"].items()) {
    const Tokenizer tokenizer = made(family["tokenizer"]);
    for (size_t i = 0; i < texts.size(); ++i) {
      SCOPED_TRACE(name + ": " + nlohmann::json(texts[i]).dump());
      const Encoding encoding = tokenizer.encode(texts[i]);
      std::vector<int64_t> offsets;
      for (const auto& [begin, end] : encoding.offsets) offsets.insert(offsets.end(), {begin, end});
      EXPECT_EQ(encoding.ids, family["ids"][i].get<std::vector<int32_t>>());
      EXPECT_EQ(offsets, family["offsets"][i].get<std::vector<int64_t>>());
      EXPECT_EQ(tokenizer.decode(encoding.ids, false), family["decoded"][i][0].get<std::string>());
      EXPECT_EQ(tokenizer.decode(encoding.ids, true), family["decoded"][i][1].get<std::string>());
    }
  }
}

std::string error_of(nlohmann::json file) {
  try {
    made(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DecoderTokenizers, WhatIsMalformedOrNotThereIsNamed) {
  nlohmann::json file = goldens()["families"]["llama3"]["tokenizer"];
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\d+(?=x)";
  EXPECT_NE(error_of(file).find("\\d+(?=x)"), std::string::npos) << error_of(file);
  file = goldens()["families"]["llama2"]["tokenizer"];
  file["model"]["vocab"].erase("<0x41>");
  EXPECT_NE(error_of(file).find("<0x41>"), std::string::npos) << error_of(file);
  file = goldens()["families"]["qwen"]["tokenizer"];
  file["model"]["merges"].push_back({"the", "zzz"});
  EXPECT_NE(error_of(file).find("zzz"), std::string::npos) << error_of(file);
}

}  // namespace
}  // namespace lathe::decoder_goldens_test
